"""Penalties that several families share: KL(policy || reference) and the entropy bonus.

The divergence is estimated at the sampled tokens. In the reward it is a cost of the whole answer, `[P, G]`, without
gradient; in the loss it is a cost of each token, `[P, G, T]`, to minimise.
"""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import finite, positive, share
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, log_importance_ratio
from ipsrl.objectives.parts import Penalty, RolloutPart
from ipsrl.structures import Metrics, PolicyScores, Rollouts, Sizes, masked_sum

RewardEstimator = Literal["k1", "k2", "k3"]

LossEstimator = Literal["k1", "k2", "k3", "corrected_k3"]


def token_divergence(log_probs: Array, rollouts: Rollouts, estimator: RewardEstimator) -> Array:
    """`[P, G, T]` nats, 0 where the mask is False; d = log pi - log pi_ref of the sampled token.

        k1 = d                       unbiased in value
        k2 = d^2 / 2
        k3 = exp(-d) + d - 1 >= 0    unbiased in value

    In k3, d is clamped to [-20, 20] as in verl: the gradient is zero beyond. verl's second clamp, of k3 itself to 10,
    is omitted.
    """
    difference = jnp.where(rollouts.token_mask, log_probs - rollouts.reference_log_probs, 0.0)
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference**2 / 2
    difference = jnp.clip(difference, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return jnp.exp(-difference) + difference - 1.0


def mean_answer_divergence(rollouts: Rollouts) -> Array:
    """KL(behaviour || reference) in nats per answer, `[]`: the mean over answers of the summed k1."""
    divergence = masked_sum(token_divergence(rollouts.behaviour_log_probs, rollouts, "k1"), rollouts.token_mask)
    return divergence / jnp.maximum(rollouts.answered.sum(), 1)


def adapted_coefficient(coefficient: Array, divergence: Array, target: float, gain: float) -> Array:
    """The coefficient for the next batch, moved so that the divergence settles at `target` (arXiv 1909.08593).

        coefficient * (1 + gain * clip(KL / target - 1, -0.2, 0.2))

    KL is `mean_answer_divergence`.
    """
    return coefficient * (1.0 + gain * jnp.clip(divergence / target - 1.0, -0.2, 0.2))


def answer_divergence(rollouts: Rollouts, estimator: RewardEstimator) -> Array:
    """KL(behaviour || reference) summed over the tokens of each answer, `[P, G]` nats."""
    return token_divergence(rollouts.behaviour_log_probs, rollouts, estimator).sum(axis=-1)


@dataclasses.dataclass(frozen=True)
class DivergenceCost(RolloutPart):
    """r - coefficient * sum_t KL_t from the behaviour policy to the reference: KL in the reward, without gradient.

    It precedes the baseline, so it is centred and scaled like the rewards. The expected update of k1 is that of
    KL(policy || reference) (RLOO, arXiv 2402.14740).
    """

    coefficient: float = positive(called="the coefficient of the KL penalty")
    estimator: RewardEstimator = "k1"
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values - self.coefficient * answer_divergence(rollouts, self.estimator)


@dataclasses.dataclass(frozen=True)
class AdaptiveDivergenceCost(DivergenceCost):
    """`DivergenceCost` whose coefficient follows a target in nats per answer (arXiv 1909.08593).

    `coefficient` is the initial one; a batch uses the coefficient adapted by the batches before it, see
    `adapted_coefficient`. The paper's gain is 0.1; lm-human-preferences and verl write it as batch size / 10,000.
    """

    target: float = positive(6.0, called="the target of the KL penalty")
    gain: float = share(0.1, called="the gain of the KL penalty")

    def init(self, sizes: Sizes) -> dict[str, Array]:
        """The coefficient, and the divergence of the previous batch, 0 before the first."""
        return {"coefficient": jnp.float32(self.coefficient), "divergence": jnp.float32(0)}

    def update_state(
        self, values: Array, rollouts: Rollouts, state: dict[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        charged = values - state["coefficient"] * answer_divergence(rollouts, self.estimator)
        divergence = mean_answer_divergence(rollouts)
        coefficient = adapted_coefficient(state["coefficient"], divergence, self.target, self.gain)
        return charged, {"coefficient": coefficient, "divergence": divergence}

    def state_metrics(self, state: dict[str, Array]) -> Metrics:
        """The coefficient of the next batch, and the divergence of this one in nats per answer."""
        one = jnp.float32(1)
        return {"reference_kl_coefficient": (state["coefficient"], one), "answer_kl": (state["divergence"], one)}


@dataclasses.dataclass(frozen=True)
class KullbackLeibler(Penalty):
    """coefficient * KL(policy || reference), estimated at the sampled tokens; d = log pi - log pi_ref.

        k1 = d                       gradient 1: zero on average, because the gradient of log pi has mean 0
        k2 = d^2 / 2                 gradient d: on-policy that of KL(policy || reference)
        k3 = exp(-d) + d - 1 >= 0    gradient 1 - exp(-d): on-policy that of KL(reference || policy)
        corrected_k3 = rho k3        gradient rho d: that of KL(policy || reference), off-policy too

    k3 is GRPO's (arXiv 2402.03300, coefficient 0.04); multiplied by the importance ratio rho it is DeepSeek-V3.2's
    (arXiv 2512.02556). Gradients are with respect to log pi. d in k3 and log rho are clamped to [-20, 20]: the gradient
    is zero beyond. The corrected k3 is computed as pi_ref / behaviour - rho + rho d with a constant first term, so that
    its gradient is not a small difference of large numbers.
    """

    CALLED: ClassVar[str] = "KL"
    name: ClassVar[str] = "reference_kl"
    coefficient: float = positive(called="the coefficient of the KL penalty")
    estimator: LossEstimator = "k3"
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        if self.estimator == "corrected_k3":
            divergence = _corrected_k3(scores, rollouts)
        else:
            divergence = token_divergence(scores.log_probs, rollouts, self.estimator)
        return divergence, {"reference_kl": (divergence.sum(), rollouts.token_mask.sum(dtype=jnp.float32))}


@dataclasses.dataclass(frozen=True)
class AdaptiveKullbackLeibler(KullbackLeibler):
    """`KullbackLeibler` whose coefficient follows a target in nats per answer (arXiv 1909.08593).

    `coefficient` is the initial one; a batch uses the coefficient adapted by the batches before it, see
    `adapted_coefficient`. The paper puts the penalty into the reward (`AdaptiveDivergenceCost`); its gain is 0.1.
    """

    target: float = positive(6.0, called="the target of the KL penalty")
    gain: float = share(0.1, called="the gain of the KL penalty")

    def init(self, sizes: Sizes) -> Array:
        """The coefficient, `[]`."""
        return jnp.float32(self.coefficient)

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Array) -> tuple[Array, Array]:
        coefficients = jnp.broadcast_to(state, (rollouts.rewards.shape[0], 1, 1))
        return coefficients, adapted_coefficient(state, mean_answer_divergence(rollouts), self.target, self.gain)


def _corrected_k3(scores: PolicyScores, rollouts: Rollouts) -> Array:
    moved = jnp.clip(log_importance_ratio(scores, rollouts), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    start = jnp.where(rollouts.token_mask, rollouts.behaviour_log_probs - rollouts.reference_log_probs, 0.0)
    constant = jnp.exp(jnp.clip(-start, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    return constant + jnp.exp(moved) * (start + moved - 1.0)


@dataclasses.dataclass(frozen=True)
class EntropyBonus(Penalty):
    """-coefficient * H of the next-token distribution, in nats, with gradient. A negative coefficient penalises
    entropy.
    """

    name: ClassVar[str] = "entropy"
    coefficient: float = finite(called="the coefficient of the entropy bonus")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        return -scores.entropy, {}


def entropy_bonus(coefficient: float) -> tuple[Penalty, ...]:
    """The entropy bonus; empty if the coefficient is 0."""
    return (EntropyBonus(coefficient),) if coefficient else ()
