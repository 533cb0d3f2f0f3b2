"""Parts that add a cost to the loss: `[P, G, T]` costs to minimise, which the objective multiplies by a coefficient."""

import dataclasses
import math
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import at_least, finite, open_probability, positive, share
from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.objectives.ranks import quantile
from ipsrl.objectives.reference_divergence import (
    adapted_coefficient,
    mean_answer_divergence,
    token_divergence,
)
from ipsrl.objectives.surrogates import LOG_RATIO_LIMIT, log_importance_ratio
from ipsrl.structures import PolicyScores, Rollouts, Sizes

LossEstimator = Literal["k1", "k2", "k3", "corrected_k3"]


@dataclasses.dataclass(frozen=True)
class KullbackLeibler(Penalty):
    """coefficient * KL(policy || reference), estimated at the sampled tokens; d = log pi - log pi_ref.

        k1 = d                       gradient 1: nothing on average, as the gradient of log pi has mean 0
        k2 = d^2 / 2                 gradient d: on-policy that of KL(policy || reference)
        k3 = exp(-d) + d - 1 >= 0    gradient 1 - exp(-d): on-policy that of KL(reference || policy)
        corrected_k3 = rho k3        gradient rho d: that of KL(policy || reference), off-policy too

    k3 is GRPO's (arXiv 2402.03300, coefficient 0.04); times the importance ratio rho it is DeepSeek-V3.2's (arXiv
    2512.02556). Gradients are those by log pi. d in k3 and log rho are clamped to [-20, 20]: beyond, no gradient. The
    corrected k3 is taken as pi_ref / behaviour - rho + rho d, whose first term is a constant, so that its gradient does
    not come as a small difference of large numbers.
    """

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
    """`KullbackLeibler` whose coefficient follows a target in nats for each answer (arXiv 1909.08593).

    `coefficient` is the first one; a batch is penalised with the coefficient that the batches before it have left, see
    `adapted_coefficient`. The paper has it in the reward, see `reward_costs`; its gain is 0.1.
    """

    target: float = positive(6.0, called="the target of the KL penalty")
    gain: float = share(0.1, called="the gain of the KL penalty")

    def init(self, sizes: Sizes) -> Array:
        """The coefficient, `[]`."""
        return jnp.float32(self.coefficient)

    def carry(self, rollouts: Rollouts, advantages: Array, state: Array) -> tuple[Array, Array]:
        coefficients = jnp.broadcast_to(state, (rollouts.rewards.shape[0], 1, 1))
        return coefficients, adapted_coefficient(state, mean_answer_divergence(rollouts), self.target, self.gain)


def _corrected_k3(scores: PolicyScores, rollouts: Rollouts) -> Array:
    moved = jnp.clip(log_importance_ratio(scores, rollouts), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    start = jnp.where(rollouts.token_mask, rollouts.behaviour_log_probs - rollouts.reference_log_probs, 0.0)
    constant = jnp.exp(jnp.clip(-start, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    return constant + jnp.exp(moved) * (start + moved - 1.0)


@dataclasses.dataclass(frozen=True)
class EntropyBonus(Penalty):
    """-coefficient * H of the next-token distribution, in nats, with gradient. Below 0 it is a penalty on entropy."""

    name: ClassVar[str] = "entropy"
    coefficient: float = finite(called="the coefficient of the entropy bonus")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        return -scores.entropy, {}


@dataclasses.dataclass(frozen=True)
class LowProbabilityRegulariser(Penalty):
    """Lp-Reg (arXiv 2510.03222): pulls the policy to a proxy without noise where it would lose an unlikely token.

        proxy = behaviour policy restricted to tokens with probability above kappa * (the likeliest's), renormalised
        cost  = KL(proxy || policy) at tokens of behaviour probability below the rho-quantile of the batch whose
                advantage is negative and whose proxy probability is positive; 0 elsewhere

    The proxy is a constant. It is built from the `likeliest` tokens, so that a token beyond them counts as noise (our
    reading; the paper has the whole vocabulary). The gradient by K log-probabilities takes K times the memory of other
    losses', and more than K times the time of GRPO's, since it does not fit into a processor's caches.

    Attributes:
      coefficient: beta.
      kappa, rho: as above.
      threshold: `min_p` as above, or `fixed`: probability above kappa itself.
      likeliest: K, how many tokens of the behaviour policy are known at each position.
      form: `paper` as above; `code` is what was released: k3 of the policy from the proxy at the sampled token alone,
        clamped to 10 (no gradient beyond), only where the policy is below the proxy; and the quantile is of the
        tokens with negative advantage.
    """

    name: ClassVar[str] = "proxy_kl"
    coefficient: float = positive(1.0, called="the coefficient of Lp-Reg")
    kappa: float = open_probability(0.02)
    rho: float = open_probability(0.01)
    threshold: Literal["min_p", "fixed"] = "min_p"
    likeliest: int = at_least(1, 20)
    form: Literal["paper", "code"] = "paper"
    needs: ClassVar[frozenset[str]] = frozenset({"top_log_probs"})

    @property
    def top_tokens(self) -> int:
        return self.likeliest

    def carry(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        mask = rollouts.token_mask
        log_probs = jnp.where(mask, rollouts.behaviour_log_probs, 0.0)
        likeliest = rollouts.top_log_probs[..., : self.likeliest]
        in_proxy = (log_probs > self._log_threshold(likeliest)[..., 0]) & (log_probs >= likeliest[..., -1])
        probability = jnp.exp(log_probs)
        ranked = mask & (advantages < 0) if self.form == "code" else mask
        regularised = mask & (probability < quantile(probability, ranked, self.rho)) & (advantages < 0) & in_proxy
        return self.coefficient * regularised.astype(jnp.float32), state

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        likeliest = rollouts.top_log_probs[..., : self.likeliest]
        kept = mask[..., None] & (likeliest > self._log_threshold(likeliest))
        probability = jnp.exp(jnp.where(kept, likeliest, -jnp.inf))
        mass = probability.sum(axis=-1)
        mass = jnp.where(mass > 0, mass, 1.0)
        if self.form == "code":
            gap = jnp.where(mask, rollouts.behaviour_log_probs - jnp.log(mass) - scores.log_probs, 0.0)
            gap = jnp.clip(gap, 0.0, LOG_RATIO_LIMIT)
            divergence = jnp.minimum(jnp.exp(gap) - gap - 1.0, 10.0)
        else:
            gap = jnp.where(kept, likeliest - scores.top_log_probs[..., : self.likeliest], 0.0)
            divergence = (probability * gap).sum(axis=-1) / mass - jnp.log(mass)
        return divergence, {"proxy_kl": (divergence.sum(), mask.sum(dtype=jnp.float32))}

    def _log_threshold(self, likeliest: Array) -> Array:
        """Above it the proxy keeps a token, `[P, G, T, 1]`; `likeliest` are log-probabilities, likeliest first."""
        highest = likeliest[..., :1] if self.threshold == "min_p" else jnp.zeros_like(likeliest[..., :1])
        return highest + math.log(self.kappa)
