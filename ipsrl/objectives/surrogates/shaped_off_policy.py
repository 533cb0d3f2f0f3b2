"""Values for off-policy answers that are no importance ratio: `[P, G, T]` values to maximise."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import positive
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, importance_ratio
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.objectives.surrogates.ratio import ClippedRatio, clipped
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class ShapedOffPolicy(Surrogate):
    """A p / (p + gamma) for tokens of `Rollouts.off_policy` answers, p = pi(token); the ratio rho for all others.

        off-policy:  A p / (p + gamma),  whose gradient is  A p gamma / (p + gamma)^2 grad log p
        on-policy:   min( rho A, clip(rho, 1 - low, 1 + high) A )

    The factor on grad log p is largest, 1/4, at p = gamma, and p / gamma for much smaller p. No behaviour probability
    is needed, unlike in an importance ratio. The shape is LUFFY's, as used in Critique-GRPO (arXiv 2506.03106).

    Attributes:
      gamma: None uses A p itself, the ratio to a behaviour probability of 1.
      low, high: of the clip; None for no bound on that side.
    """

    gamma: float | None = positive(0.1)
    low: float | None = None
    high: float | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"off_policy"})

    def __post_init__(self):
        super().__post_init__()
        if not ((self.low is None or 0.0 < self.low <= 1.0) and (self.high is None or self.high > 0.0)):
            raise ValueError(f"clip range is 1 - {self.low} to 1 + {self.high}: low must lie in (0, 1], high above 0")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask, elsewhere = rollouts.token_mask, rollouts.off_policy[..., None]
        log_probs = jnp.where(mask, scores.log_probs, 0.0)
        if self.gamma is None:
            shaped = jnp.exp(jnp.minimum(log_probs, LOG_RATIO_LIMIT))
        else:
            shaped = jax.nn.sigmoid(log_probs - math.log(self.gamma))
        low, high = (math.inf if bound is None else bound for bound in (self.low, self.high))
        own, metrics = clipped(importance_ratio(scores, rollouts), mask & ~elsewhere, advantages, low, high)
        refined = mask & elsewhere
        metrics["shaped_probability"] = (masked_sum(shaped, refined), refined.sum(dtype=jnp.float32))
        return jnp.where(elsewhere, shaped * advantages, own), metrics


@dataclasses.dataclass(frozen=True)
class LikelihoodOffPolicy(ClippedRatio):
    """A log p for tokens of `Rollouts.off_policy` answers, p = pi(token); that of `ClippedRatio` for all others."""

    needs: ClassVar[frozenset[str]] = frozenset({"off_policy"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask, elsewhere = rollouts.token_mask, rollouts.off_policy[..., None]
        ratio = importance_ratio(scores, rollouts)
        own, metrics = clipped(ratio, mask & ~elsewhere, advantages, self.low, self.high, self.dual_clip)
        return jnp.where(elsewhere, advantages * jnp.where(mask, scores.log_probs, 0.0), own), metrics
