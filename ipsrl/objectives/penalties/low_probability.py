"""A divergence from the reference on unlikely tokens only: `[P, G, T]` costs to minimise."""

import dataclasses
import math
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import at_least, open_probability, positive
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT
from ipsrl.objectives.estimators.ranks import quantile
from ipsrl.objectives.objective import Metrics, Penalty, rounding
from ipsrl.structures import PolicyScores, Rollouts


@dataclasses.dataclass(frozen=True)
class LowProbabilityRegulariser(Penalty):
    """Lp-Reg (arXiv 2510.03222): pulls the policy to a proxy without noise, at unlikely tokens it would otherwise lose.

        proxy = behaviour policy restricted to tokens above kappa * (highest probability), renormalised
        cost  = KL(proxy || policy) at tokens with behaviour probability below the rho-quantile of the batch,
                negative advantage and positive proxy probability; 0 elsewhere

    The proxy is a constant. It is built from the `likeliest` tokens, so other tokens count as noise (our reading; the
    paper uses the whole vocabulary). The gradient by K log-probabilities takes K times the memory of other losses, and
    more than K times GRPO's time, because it does not fit into a processor's caches.

    Attributes:
      coefficient: beta.
      kappa, rho: as above.
      threshold: `min_p` as above, or `fixed`: probability above kappa itself.
      likeliest: K, number of the behaviour policy's most likely tokens known at each position.
      form: `paper` as above; `code` as released: k3 of the policy from the proxy at the sampled token alone, clamped to
        10 (zero gradient beyond), only where the policy is below the proxy, with the quantile over tokens with negative
        advantage.
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

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        mask = rollouts.token_mask
        log_probs = jnp.where(mask, rollouts.behaviour_log_probs, 0.0)
        likeliest = rollouts.top_log_probs[..., : self.likeliest]
        in_proxy = (log_probs > self._log_threshold(likeliest)[..., 0]) & (log_probs >= likeliest[..., -1])
        probability = jnp.exp(log_probs)
        # An answer whose reward is its group's mean has an advantage of rounding.
        negative = mask & (advantages < -rounding(jnp.where(mask, advantages, 0.0), axis=(1, 2)))
        ranked = negative if self.form == "code" else mask
        regularised = negative & (probability < quantile(probability, ranked, self.rho)) & in_proxy
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
        """The proxy keeps log-probabilities above this, `[P, G, T, 1]`; `likeliest` are sorted, largest first."""
        highest = likeliest[..., :1] if self.threshold == "min_p" else jnp.zeros_like(likeliest[..., :1])
        return highest + math.log(self.kappa)
