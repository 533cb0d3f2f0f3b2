"""Surrogates that differ in how they treat tokens whose importance ratio has left its range: `[P, G, T]` values.

Almost all are a policy gradient with a constant weight w on each token, grad J = w A grad log pi (e_l and e_h are the
lower and upper clip limits, r is the importance ratio):

    part                      A > 0, r > 1 + e_h     A < 0, r < 1 - e_l     elsewhere
    ClippedRatio (PPO)        0                      0                      r
    ImportanceRatio           r                      r                      r
    GradientPreservingClip    beta2 (1 + e_h)        beta1 (1 - e_l)        r
    TruncatedRatio (CISPO)    min(r, cap)            r                      min(r, cap)
    TaperedRatio (TOPR)       1                      r                      1 if A > 0, else min(r, 1)
    DivergenceMask (DPPO)     0 or min(r, cap), by the divergence between the two policies; elsewhere min(r, cap)
    BalancedClip (BAPO)       as PPO, with limits found for each mini-batch

Where |log r| is beyond `LOG_RATIO_LIMIT` the weight is 0, except in CISPO and TOPR.
"""

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import above, at_least, non_negative, positive
from ipsrl.objectives.estimators.importance import importance_ratio, log_importance_ratio, with_constant_weight
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.objectives.surrogates.ratio import LimitedRatio, clipped, ratio_metrics
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class ImportanceRatio(Surrogate):
    """rho A, rho the importance ratio: unbiased for stale samples, but steps are not bounded."""

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        return ratio * advantages, ratio_metrics(ratio, rollouts.token_mask)


@dataclasses.dataclass(frozen=True)
class GradientPreservingClip(LimitedRatio):
    """The clip's value, with a bounded gradient at clipped tokens (GPPO, arXiv 2508.07629; CE-GPPO, arXiv 2509.20712).

        w A,   w = beta1 (1 - low)  where A < 0 and rho < 1 - low
               w = beta2 (1 + high) where A > 0 and rho > 1 + high
               w = rho              elsewhere;                          gradient w A grad log pi

    beta1 = beta2 = 1 has PPO's value everywhere. `dual_clip` removes the gradient where A < 0 and rho > dual_clip. The
    gradient is also zero where |log rho| is beyond `LOG_RATIO_LIMIT`.
    """

    low: float = 0.2
    high: float = 0.28
    negative_scale: float = non_negative(1.0)
    positive_scale: float = non_negative(1.0)
    dual_clip: float | None = above(1, None)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        too_low = (advantages < 0) & (ratio < 1.0 - self.low)
        too_high = (advantages > 0) & (ratio > 1.0 + self.high)
        weight = jnp.where(too_low, self.negative_scale * (1.0 - self.low), ratio)
        weight = jnp.where(too_high, self.positive_scale * (1.0 + self.high), weight)
        values = with_constant_weight(weight, log_importance_ratio(scores, rollouts), scores, rollouts) * advantages
        changed = too_low | too_high
        if self.dual_clip is not None:
            floor = jnp.where(advantages < 0, self.dual_clip * advantages, -jnp.inf)
            changed |= values < floor
            values = jnp.maximum(values, floor)
        return values, ratio_metrics(ratio, rollouts.token_mask, changed)


@dataclasses.dataclass(frozen=True)
class TruncatedRatio(Surrogate):
    """clip(rho, floor, cap) A log pi, the clipped ratio a constant (CISPO, arXiv 2506.13585): no token is dropped.

    REINFORCE with truncated importance weights; its value does not estimate the return.
    """

    cap: float = 5.0
    floor: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.floor < self.cap < math.inf:
            raise ValueError(
                f"ratios are clipped to [{self.floor}, {self.cap}], they need 0 <= floor < cap with a finite cap"
            )

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        weight = jax.lax.stop_gradient(jnp.clip(ratio, self.floor, self.cap))
        return weight * advantages * scores.log_probs, ratio_metrics(ratio, rollouts.token_mask, weight != ratio)


@dataclasses.dataclass(frozen=True)
class TaperedRatio(Surrogate):
    """w A log pi, w = 1 where A > 0 and min(rho, 1) elsewhere, a constant: TOPR (arXiv 2503.14286).

    Good answers are imitated however old they are; bad ones that the policy no longer gives are left alone. rho is the
    ratio `of` each token, or of the whole `answer`.
    """

    of: Literal["token", "answer"] = "token"

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_ratio = log_importance_ratio(scores, rollouts)
        if self.of == "answer":
            log_ratio = jnp.broadcast_to(log_ratio.sum(axis=-1, keepdims=True), log_ratio.shape)
        weight = jnp.where(advantages > 0, 1.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
        values = jax.lax.stop_gradient(weight) * advantages * scores.log_probs
        ratio = importance_ratio(scores, rollouts)
        return values, ratio_metrics(ratio, rollouts.token_mask, weight != ratio)


@dataclasses.dataclass(frozen=True)
class FlippedRatio(LimitedRatio):
    """min(1 / rho, cap) A where A > 0, min(rho, cap) A elsewhere: ASPO (arXiv 2510.06062).

    The gradient is this weight, a constant, times A grad log pi: good tokens that have become unlikely weigh most, as
    bad ones that have become likely do. Tokens beyond PPO's clip, rho > 1 + high where A > 0 and rho < 1 - low
    elsewhere, have none; those that `cap` changes keep theirs. rho is clipped before it is flipped.
    """

    low: float = 0.2
    high: float = 0.2
    cap: float = at_least(1, 3.0)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio, good = importance_ratio(scores, rollouts), advantages > 0
        kept = jnp.where(good, jnp.minimum(ratio, 1.0 + self.high), jnp.maximum(ratio, 1.0 - self.low))
        weight = jax.lax.stop_gradient(jnp.minimum(jnp.where(good, 1.0 / kept, kept), self.cap))
        moving = with_constant_weight(weight, log_importance_ratio(scores, rollouts), scores, rollouts)
        values = jnp.where(kept != ratio, weight, moving) * advantages
        return values, ratio_metrics(ratio, rollouts.token_mask, kept != ratio)


@dataclasses.dataclass(frozen=True)
class BalancedClip(Surrogate):
    """PPO's clip with limits that give positive advantages their share of the objective (BAPO, arXiv 2510.18927).

    For each mini-batch the limits move from (low_start, high_start) along a fixed path until

        paper:     sum_{A > 0} p |A| min(rho, c_high)  >=  target * sum over all tokens, p = behaviour probability;
                   first c_high grows to high_end, then c_low to low_end
        code:      sum_{A > 0} |A| min(rho, c_high)    >=  target * sum_{A < 0} |A| max(rho, c_low);
                   first c_low grows, then c_high (the released code)

    or the path ends. Then min( rho A, clip(rho, c_low, c_high) A ) is maximised; the limits are ratios. The terms of
    the paper's sums are |min( rho A, clip(rho) A )|; they never shrink as c_low grows, so only c_high can reach the
    target, and c_low, once it moves, goes to its end (derived). The search has no gradient. A mini-batch whose
    advantages are all zero keeps the start limits.

    Sums at every limit of the path take ten times as long as GRPO. They are needed only if a mini-batch is split into
    micro-batches, over which sums are added; an unsplit one is searched by bisection.
    """

    form: Literal["paper", "code"] = "paper"
    target: float = positive(0.4)
    low_start: float = 0.6
    low_end: float = 0.9
    low_step: float = 0.02
    high_start: float = 1.2
    high_end: float = 3.0
    high_step: float = 0.05
    dual_clip: float | None = above(1, None)

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.low_start <= self.low_end < 1.0 < self.high_start <= self.high_end < math.inf:
            raise ValueError(
                f"the clip's limits move from {self.low_start} to {self.low_end} and from {self.high_start} to "
                f"{self.high_end}: they are ratios, below and above 1, and must not shrink"
            )
        if not (self.low_step > 0.0 and self.high_step > 0.0):
            raise ValueError(f"low_step is {self.low_step} and high_step is {self.high_step}: both must be positive")

    @property
    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper limits along the path, float32."""
        return (
            _steps(self.low_start, self.low_end, self.low_step),
            _steps(self.high_start, self.high_end, self.high_step),
        )

    @property
    def path(self) -> np.ndarray:
        """`[pairs, 2]`, indices into the lower and the upper limits."""
        lows, highs = (list(range(len(limits))) for limits in self._limits)
        if self.form == "paper":
            return np.array([(0, high) for high in highs] + [(low, highs[-1]) for low in lows[1:]])
        return np.array([(low, 0) for low in lows] + [(lows[-1], high) for high in highs[1:]])

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> dict[str, Array]:
        """Negative sums for each lower limit, and positive sums for each upper limit."""
        negative, positive = self._sums(scores, rollouts, advantages)
        lows, highs = self._limits
        return {"negative": jax.vmap(negative)(lows), "positive": jax.vmap(positive)(highs)}

    def searched(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Array]:
        """The limits that `found` would find in the statistics of this batch, from only a few of the sums.

        Both sums grow with their limits, so the measure falls while the lower limit moves and grows while the upper one
        does: it reaches the target at the start, or while the upper limit moves, or nowhere.
        """
        negative, positive = self._sums(scores, rollouts, advantages)
        lows, highs = map(jnp.asarray, self._limits)
        beside = lows[0 if self.form == "paper" else -1]
        negative_beside = negative(beside)
        bits = len(highs).bit_length()

        def walk(bit, passed):
            """One bisection step: `passed` upper limits do not reach the target; returns that many or more."""
            further = passed + (1 << (bits - 1 - bit))
            reached = self._reached(negative_beside, positive(highs[further - 1]))
            return jnp.where((further <= len(highs)) & ~reached, further, passed)

        passed = jax.lax.fori_loop(0, bits, walk, jnp.int32(0))
        at_end = passed == len(highs)
        low, high = jnp.where(at_end, lows[-1], beside), jnp.where(at_end, highs[-1], highs[passed])
        if self.form == "paper":
            return low, high
        at_start = self._reached(negative(lows[0]), positive(highs[0]))
        return jnp.where(at_start, lows[0], low), jnp.where(at_start, highs[0], high)

    def evaluate(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        advantages: Array,
        parameters: Any,
        statistics: dict[str, Array] | None,
    ) -> tuple[Array, Metrics]:
        limits = self.searched(scores, rollouts, advantages) if statistics is None else self.found(statistics)
        low, high = jax.lax.stop_gradient(limits)
        ratio, mask = importance_ratio(scores, rollouts), rollouts.token_mask
        values, metrics = clipped(ratio, mask, advantages, 1.0 - low, high - 1.0, self.dual_clip)
        tokens = mask.sum(dtype=jnp.float32)
        return values, metrics | {"clip_low": (low * tokens, tokens), "clip_high": (high * tokens, tokens)}

    def found(self, statistics: dict[str, Array]) -> tuple[Array, Array]:
        """The first pair of limits on the path that reaches the target, else the last pair."""
        lows, highs = self._limits
        low_index, high_index = self.path.T
        reached = self._reached(statistics["negative"][low_index], statistics["positive"][high_index])
        first = jnp.argmax(reached.at[-1].set(True))
        return jnp.asarray(lows[low_index])[first], jnp.asarray(highs[high_index])[first]

    def _sums(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple:
        """Two functions: lower limit -> sum over negative advantages; upper limit -> sum over positive ones."""
        ratio = importance_ratio(scores, rollouts)
        weight = jnp.where(rollouts.token_mask, jnp.abs(advantages), 0.0)
        if self.form == "paper":
            weight *= jnp.exp(jnp.where(rollouts.token_mask, rollouts.behaviour_log_probs, 0.0))
        negative, positive = (jnp.where(chosen, weight, 0.0) for chosen in (advantages < 0, advantages > 0))

        def of_negative(low):
            return (negative * jnp.maximum(ratio, low)).sum()

        def of_positive(high):
            return (positive * jnp.minimum(ratio, high)).sum()

        return of_negative, of_positive

    def _reached(self, negative: Array, positive: Array) -> Array:
        """Whether the sums reach the target."""
        whole = negative + positive if self.form == "paper" else negative
        # A target met exactly must not be missed by rounding.
        return positive >= self.target * whole * (1.0 - 1e-6)


def _steps(start: float, end: float, step: float) -> np.ndarray:
    """start, start + step, ... up to end; a last step that misses the end only by rounding is included."""
    return (start + step * np.arange(math.floor((end - start) / step + 1e-6) + 1)).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class DivergenceMask(Surrogate):
    """Drops tokens that leave the trust region, measured by a divergence (DPPO, arXiv 2602.04879).

        M min(rho, cap) A,   M = 0 where D > threshold and (A > 0 and rho > 1, or A < 0 and rho < 1), else 1
        gradient M min(rho, cap) A grad log pi

    D is a divergence between mu, the behaviour policy, and pi, the policy being trained, at the token's position:

        binary_tv   |mu - pi| of the sampled token
        binary_kl   mu log(mu / pi) + (1 - mu) log((1 - mu) / (1 - pi)), 1e-8 added inside the second logarithm
        top_tv, top_kl   total variation, or KL(mu || pi), over the `TOP_TOKENS` most likely tokens of mu, the
                         sampled token, and one bucket with the rest; masses are at least 1e-12

    Tokens that move back towards mu are kept, unless |log rho| is beyond `LOG_RATIO_LIMIT`; PPO is the case D = |rho -
    1|. `ratio_cap = None` is no cap. Arrays of the K most likely tokens take K times the memory of other losses and
    more than K times GRPO's time, because they do not fit into a processor's caches.
    """

    divergence: Literal["binary_tv", "binary_kl", "top_tv", "top_kl"] = "binary_tv"
    threshold: float = positive(0.15)
    ratio_cap: float | None = at_least(1, None)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"top_log_probs"} if self.top_tokens else ())

    @property
    def top_tokens(self) -> int:
        return TOP_TOKENS if self.divergence.startswith("top") else 0

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        leaves = jnp.where(advantages > 0, ratio > 1.0, (advantages < 0) & (ratio < 1.0))
        dropped = leaves & (self.between(jax.lax.stop_gradient(scores), rollouts) > self.threshold)
        weight = jnp.where(dropped, 0.0, ratio if self.ratio_cap is None else jnp.minimum(ratio, self.ratio_cap))
        metrics = ratio_metrics(ratio, rollouts.token_mask, dropped)
        counted = masked_sum((advantages != 0).astype(jnp.float32), rollouts.token_mask)
        metrics["clip_fraction"] = (metrics["clip_fraction"][0], counted)
        weight = with_constant_weight(weight, log_importance_ratio(scores, rollouts), scores, rollouts)
        return weight * advantages, metrics

    def between(self, scores: PolicyScores, rollouts: Rollouts) -> Array:
        """D for each token, `[P, G, T]`."""
        mask = rollouts.token_mask
        # A probability rounded above 1 would make the other side's mass negative.
        log_mu, log_pi = (
            jnp.minimum(jnp.where(mask, log_probs, 0.0), 0.0)
            for log_probs in (rollouts.behaviour_log_probs, scores.log_probs)
        )
        if self.divergence == "binary_tv":
            return jnp.abs(jnp.exp(log_mu) - jnp.exp(log_pi))
        if self.divergence == "binary_kl":
            others = jnp.log((1e-8 - jnp.expm1(log_mu)) / (1e-8 - jnp.expm1(log_pi)))
            return jnp.exp(log_mu) * (log_mu - log_pi) - jnp.expm1(log_mu) * others
        listed = (rollouts.top_tokens == rollouts.tokens[..., None]).any(axis=-1)
        mu = _log_masses(log_mu, rollouts.top_log_probs, listed)
        pi = _log_masses(log_pi, scores.top_log_probs, listed)
        if self.divergence == "top_tv":
            top, sampled, rest = (jnp.abs(jnp.exp(m) - jnp.exp(p)).sum(axis=-1) for m, p in zip(mu, pi, strict=True))
            return (top + sampled + rest) / 2
        top, sampled, rest = ((jnp.exp(m) * (m - p)).sum(axis=-1) for m, p in zip(mu, pi, strict=True))
        return top + sampled + rest


TOP_TOKENS = 20
"""K of the divergences over the most likely tokens; with a smaller vocabulary, the bucket with the rest is empty."""


def _log_masses(log_probs: Array, top_log_probs: Array, listed: Array) -> tuple[Array, Array, Array]:
    """`[P, G, T, ...]` masses of the top tokens, of the sampled token unless it is one of them, and of the rest.

    Returned separately: concatenating them would only copy memory.
    """
    lowest = math.log(1e-12)
    top = jnp.clip(top_log_probs, lowest, 0.0)
    sampled = jnp.where(listed, lowest, jnp.maximum(log_probs, lowest))
    rest = jnp.log(jnp.maximum(1.0 - jnp.exp(top).sum(axis=-1) - jnp.exp(sampled), 1e-12))
    return top, sampled[..., None], rest[..., None]
