"""KL(policy || reference) as a penalty in the loss: `[P, G, T]` costs to minimise."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive, share
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, log_importance_ratio
from ipsrl.objectives.estimators.reference_divergence import (
    adapted_coefficient,
    mean_answer_divergence,
    token_divergence,
)
from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.structures import PolicyScores, Rollouts, Sizes

LossEstimator = Literal["k1", "k2", "k3", "corrected_k3"]


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
    `adapted_coefficient`. The paper puts the penalty into the reward, see `reward_costs`; its gain is 0.1.
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
