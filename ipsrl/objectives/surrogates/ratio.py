"""Surrogates based on the importance ratio: `[P, G, T]` values to maximise."""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking import fields
from ipsrl.objectives.estimators.importance import (
    LOG_RATIO_LIMIT,
    importance_ratio,
    log_importance_ratio,
    with_constant_weight,
)
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.structures import PolicyScores, Rollouts, masked_mean, masked_sum


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


@dataclasses.dataclass(frozen=True)
class ClippedGeometricMean(Surrogate):
    """s A, s = exp( mean_t of min(log rho_t, high) where A > 0, of max(log rho_t, -low) elsewhere ): GMPO.

    (arXiv 2507.20673). One ratio for the whole answer, at each of its tokens, from log-ratios that are clipped token by
    token, on the side to which A pushes; ClippedSequenceRatio clips their mean. `low` and `high` are limits of log rho.
    A clipped token has no gradient, the others have that of s A / length.
    """

    low: float = fields.positive(0.4, called="the lower limit of log-ratios")
    high: float = fields.positive(0.4, called="the upper limit of log-ratios")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = log_importance_ratio(scores, rollouts)
        limited = jnp.where(advantages > 0, jnp.minimum(log_ratio, self.high), jnp.maximum(log_ratio, -self.low))
        mean = masked_mean(limited, mask, axis=-1)[..., None]
        ratio = jnp.broadcast_to(jnp.exp(jnp.clip(mean, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)), mask.shape)
        return ratio * advantages, ratio_metrics(ratio, mask, limited != log_ratio)


@dataclasses.dataclass(frozen=True)
class MirrorDescent(Surrogate):
    """A log pi - tau/2 (log pi/mu)^2: a policy gradient with a squared log-ratio in the place of a clip.

    `of` an `answer` squares the sum over its tokens, in equal parts at each of them (Kimi k1.5, arXiv 2501.12599); of a
    `token`, each one's log-ratio. With A = r - V and log-probabilities summed over the answer, the maximum over all
    policies is mu exp(A / tau), up to its normalisation.
    """

    tau: float = fields.non_negative(0.1)
    of: Literal["answer", "token"] = "answer"

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = log_importance_ratio(scores, rollouts)
        square = log_ratio**2
        if self.of == "answer":
            square = log_ratio.sum(axis=-1, keepdims=True) ** 2 / jnp.maximum(mask.sum(axis=-1, keepdims=True), 1)
        values = advantages * scores.log_probs - self.tau / 2 * square
        return values, ratio_metrics(importance_ratio(scores, rollouts), mask)


@dataclasses.dataclass(frozen=True)
class SoftGate(Surrogate):
    """f(rho) A, f(rho) = (4 / tau) sigmoid(tau (rho - 1)): SAPO (arXiv 2511.20347), a smooth clip.

    tau is `positive` where A > 0 and `negative` elsewhere. The gradient by log pi is 4 sigmoid (1 - sigmoid) rho A:
    that of `PolicyGradient` at rho = 1, decreasing on both sides, faster for larger tau.
    """

    positive: float = fields.positive(1.0, called="the temperature of positive advantages")
    negative: float = fields.positive(1.05, called="the temperature of negative advantages")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        temperature = jnp.where(advantages > 0, self.positive, self.negative)
        gate = 4.0 / temperature * jax.nn.sigmoid(temperature * (ratio - 1.0))
        return gate * advantages, ratio_metrics(ratio, rollouts.token_mask)


@dataclasses.dataclass(frozen=True)
class GammaWeight(Surrogate):
    """phi(W) A log pi, phi(W) = W^k exp(lambda (1 - W)), a constant: VESPO (arXiv 2602.10693).

    W is the product of the ratios of an answer's tokens, one weight for all of them. (k, lambda) are `positive` where
    A >= 0 and `negative` elsewhere. phi is 1 at W = 1, largest at W = k / lambda, and falls to 0 on both sides, so that
    answers far from the behaviour policy fade.
    """

    positive: tuple[float, float] = fields.non_negative((2.0, 3.0), called="(k, lambda) of positive advantages")
    negative: tuple[float, float] = fields.non_negative((3.0, 2.0), called="(k, lambda) of negative advantages")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_ratio = jax.lax.stop_gradient(log_importance_ratio(scores, rollouts)).sum(axis=-1, keepdims=True)
        log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)

        def weight(k: float, decay: float) -> Array:
            return jnp.exp(k * log_ratio - decay * jnp.expm1(log_ratio))

        phi = jnp.where(advantages >= 0, weight(*self.positive), weight(*self.negative))
        metrics = ratio_metrics(importance_ratio(scores, rollouts), rollouts.token_mask)
        metrics["answer_weight"] = (masked_sum(phi, rollouts.token_mask), metrics["importance_ratio"][1])
        return phi * advantages * scores.log_probs, metrics


@dataclasses.dataclass(frozen=True)
class ProbabilityClip(Surrogate):
    """PPO's clip with limits that widen as the behaviour probability q falls: DCPO (arXiv 2509.02333).

        (1 + sqrt(max(1 - 4 low / q, 0))) / 2  <=  rho  <=  min((1 + sqrt(1 + 4 high / q)) / 2, limit)

    that is |rho (rho - 1)| q <= low or high. No lower limit is below 1/2. `limit` is also the dual clip of
    `ClippedRatio`.
    """

    low: float = fields.positive(0.16, called="the lower limit of |rho (rho - 1)| q")
    high: float = fields.positive(0.2, called="the upper limit of |rho (rho - 1)| q")
    limit: float = fields.above(1, 10.0, called="the limit of the importance ratio")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        inverse = jnp.exp(-jnp.where(mask, rollouts.behaviour_log_probs, 0.0))
        lowest = (1.0 + jnp.sqrt(jnp.maximum(1.0 - 4.0 * self.low * inverse, 0.0))) / 2.0
        highest = jnp.minimum((1.0 + jnp.sqrt(1.0 + 4.0 * self.high * inverse)) / 2.0, self.limit)
        ratio = importance_ratio(scores, rollouts)
        return clipped(ratio, mask, advantages, 1.0 - lowest, highest - 1.0, self.limit)


@dataclasses.dataclass(frozen=True)
class BoundedRatio(Surrogate):
    """clip(rho, 0, bound) A, without PPO's minimum (Lp-Reg, arXiv 2510.03222): the gradient is zero above the bound."""

    bound: float = fields.above(1, 10.0, called="the bound on the importance ratio")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        values = jnp.minimum(ratio, self.bound) * advantages
        return values, ratio_metrics(ratio, rollouts.token_mask, ratio > self.bound)


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
