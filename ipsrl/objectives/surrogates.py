"""Surrogates that several families share, based on the importance ratio: `[P, G, T]` values to maximise."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking import fields
from ipsrl.objectives.estimators.importance import (
    LOG_RATIO_LIMIT,
    importance_ratio,
    log_importance_ratio,
    with_constant_weight,
)
from ipsrl.objectives.parts import Surrogate
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_sum


def ratio_metrics(ratio: Array, mask: Array, clipped: Array | None = None) -> Metrics:
    """Mean ratio, and, for surrogates that clip, the share of tokens whose gradient was removed or bounded."""
    tokens = mask.sum(dtype=jnp.float32)
    metrics = {"importance_ratio": (masked_sum(ratio, mask), tokens)}
    if clipped is not None:
        metrics["clip_fraction"] = (masked_sum(clipped.astype(jnp.float32), mask), tokens)
    return metrics


@dataclasses.dataclass(frozen=True)
class PolicyGradient(Surrogate):
    """A log pi: the score-function (REINFORCE) gradient, without importance ratio.

    Exact on-policy; with several optimiser steps on one batch, stale samples are not corrected.
    """

    on_policy: ClassVar[bool] = True

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        return advantages * scores.log_probs, {}


@dataclasses.dataclass(frozen=True)
class ImportanceRatio(Surrogate):
    """rho A, rho the importance ratio: unbiased for stale samples, but steps are not bounded."""

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        return ratio * advantages, ratio_metrics(ratio, rollouts.token_mask)


@dataclasses.dataclass(frozen=True)
class LimitedRatio(Surrogate):
    """Base of surrogates that treat tokens otherwise whose ratio leaves 1 - `low` to 1 + `high`.

    Raises:
      ValueError: these are no limits of a ratio around 1.
    """

    low: float
    high: float

    def __post_init__(self):
        super().__post_init__()
        if not (0.0 < self.low <= 1.0 and self.high > 0.0):
            raise ValueError(f"clip range is 1 - {self.low} to 1 + {self.high}: low must lie in (0, 1], high above 0")


@dataclasses.dataclass(frozen=True)
class ClippedRatio(LimitedRatio):
    """min( rho A, clip(rho, 1 - low, 1 + high) A ), rho the importance ratio (PPO, arXiv 1707.06347).

    low = high = 0.2 is PPO's and GRPO's; low 0.2 with high 0.28 is clip-higher (DAPO, arXiv 2503.14476). At rho = 1 its
    gradient is that of `PolicyGradient`; a limit of 0 is refused, because the clip would then remove part of it.
    `dual_clip` (arXiv 1912.09729; 3 in verl) keeps the value at or above dual_clip * A where A < 0, so that a token
    already that much more likely is no longer pushed down; None omits it.
    `clip_fraction` is the share of tokens whose gradient the clips remove.
    """

    CALLED: ClassVar[str] = "clip"
    low: float = 0.2
    high: float = 0.2
    dual_clip: float | None = fields.above(1, None)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        return clipped(ratio, rollouts.token_mask, advantages, self.low, self.high, self.dual_clip)


@dataclasses.dataclass(frozen=True)
class ClippedSequenceRatio(LimitedRatio):
    """min( s A, clip(s, 1 - low, 1 + high) A ), s one importance ratio for the whole answer, at each of its tokens.

        exponent = mean:  s = exp( (1 / length) sum_t log rho_t )     GSPO (arXiv 2507.18071)
        exponent = sum:   s = exp( sum_t log rho_t )                  the answer as one action: TRL's RLOO

    `per_token` is GSPO-token: the value is s, and each token's gradient is s grad log pi times its own advantage; if
    all tokens of an answer share one advantage, mean exponents have the same gradient either way. log s is clamped like
    log rho.
    """

    exponent: Literal["mean", "sum"] = "mean"
    per_token: bool = False

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = log_importance_ratio(scores, rollouts).sum(axis=-1, keepdims=True)
        if self.exponent == "mean":
            log_ratio = log_ratio / jnp.maximum(mask.sum(axis=-1, keepdims=True), 1)
        ratio = jnp.exp(jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
        if self.per_token:
            ratio = with_constant_weight(ratio, log_ratio, scores, rollouts)
        return clipped(jnp.broadcast_to(ratio, mask.shape), mask, advantages, self.low, self.high)


def clipped(
    ratio: Array,
    mask: Array,
    advantages: Array,
    low: float | Array,
    high: float | Array,
    dual_clip: float | None = None,
) -> tuple[Array, Metrics]:
    """PPO's minimum of a ratio and its clip, times advantages, all `[P, G, T]`; with the metrics of `ClippedRatio`."""
    plain = ratio * advantages
    values = jnp.minimum(plain, jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantages)
    removed = values < plain
    if dual_clip is not None:
        floor = jnp.where(advantages < 0, dual_clip * advantages, -jnp.inf)
        removed |= values < floor
        values = jnp.maximum(values, floor)
    return values, ratio_metrics(ratio, mask, removed)
