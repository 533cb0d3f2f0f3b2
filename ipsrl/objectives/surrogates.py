"""Parts that turn advantages into something with the right gradient: `[P, G, T]` values to maximise."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.structures import PolicyScores, Rollouts, masked_sum

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to this before exp, so that one stale token cannot overflow a batch (as verl does)."""


def importance_ratio(scores: PolicyScores, rollouts: Rollouts) -> Array:
    """pi(token) / behaviour(token), `[P, G, T]`; 1 where the mask is False."""
    log_ratio = jnp.where(rollouts.token_mask, scores.log_probs - rollouts.behaviour_log_probs, 0.0)
    return jnp.exp(jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))


@dataclasses.dataclass(frozen=True)
class PolicyGradient(Surrogate):
    """A log pi: the score-function (REINFORCE) gradient, without importance ratio.

    Exact on-policy; with several optimiser steps on one batch it follows stale samples uncorrected.
    """

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        return advantages * scores.log_probs, {}


@dataclasses.dataclass(frozen=True)
class ClippedRatio(Surrogate):
    """min( rho A, clip(rho, 1 - low, 1 + high) A ), rho the importance ratio (PPO, arXiv 1707.06347).

    low = high = 0.2 is PPO's and GRPO's; low 0.2 with high 0.28 is clip-higher (DAPO, arXiv 2503.14476). At rho = 1 its
    gradient is that of `PolicyGradient`; at a limit of 0, which is refused, the clip would take a part of it.
    `clip_fraction` is the share of tokens whose gradient the clip removes.
    """

    low: float = 0.2
    high: float = 0.2

    def __post_init__(self):
        if not (0.0 < self.low <= 1.0 and self.high > 0.0):
            raise ValueError(f"clip range is 1 - {self.low} to 1 + {self.high}: low must lie in (0, 1], high above 0")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        plain = ratio * advantages
        clipped = jnp.clip(ratio, 1.0 - self.low, 1.0 + self.high) * advantages
        mask = rollouts.token_mask
        tokens = mask.sum(dtype=jnp.float32)
        return jnp.minimum(plain, clipped), {
            "clip_fraction": (masked_sum((clipped < plain).astype(jnp.float32), mask), tokens),
            "importance_ratio": (masked_sum(ratio, mask), tokens),
        }
