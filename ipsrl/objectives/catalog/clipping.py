"""GRPO with other treatments of tokens whose importance ratio has left its range.

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
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import above, at_least, non_negative, positive
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence
from ipsrl.objectives.estimators.importance import importance_ratio, log_importance_ratio, with_constant_weight
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Surrogate
from ipsrl.objectives.surrogates import LimitedRatio, ratio_metrics
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_sum


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


def gppo(
    clip: Clip = (0.2, 0.28),
    dual_clip: float | None = 10.0,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """GPPO (arXiv 2508.07629): min(rho A, clip(rho) A); clipped tokens have the gradient (their limit) A grad log pi.

    The value is clip-higher's. Every token has a gradient, except those of `dual_clip`: A < 0 and rho above it.
    Klear-Reasoner's auxiliary loss on positive samples, 0.1 in its script, is not included.

    Degenerate: groups with equal rewards get zero.
    Evidence: code (the authors' scripts).
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=GradientPreservingClip(*both_sides(clip), dual_clip=dual_clip),
        aggregation=aggregated_by(aggregation),
    )


def ce_gppo(
    negative_scale: float = 0.75,
    positive_scale: float = 1.0,
    clip: Clip = 0.2,
    dual_clip: float | None = None,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """CE-GPPO (arXiv 2509.20712): GPPO; clipped tokens weigh beta1 times their limit at A < 0, beta2 times it at A > 0.

    beta1 is `negative_scale`: 0.75 for the 7B model, 0.5 for the 1.5B one, 0.25 in some configurations; lower values
    keep the entropy higher. beta2 is `positive_scale`. Both 1 give GPPO; both 0 give PPO's gradient.

    Degenerate: groups with equal rewards get zero.
    Evidence: code (the authors' scripts).
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=GradientPreservingClip(
            *both_sides(clip),
            negative_scale=negative_scale,
            positive_scale=positive_scale,
            dual_clip=dual_clip,
        ),
        aggregation=aggregated_by(aggregation),
    )


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


def cispo(cap: float = 5.0, floor: float = 0.0, aggregation: AggregationName = "token_mean") -> Objective:
    """CISPO (arXiv 2506.13585): sg(clip(rho, floor, cap)) A log pi: no token is dropped.

    `cap` is the ratio itself, 5.0 as TRL's `epsilon_high` (after ScaleRL, arXiv 2510.13786); verl's example has 1.2.
    The paper's value could not be checked. The lower limit is off, as everywhere in practice. The loss does not
    estimate the return.

    Degenerate: groups with equal rewards get zero.
    Evidence: code (TRL, verl).
    Peers: TRL, verl, EasyDeL, Open-Instruct.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=TruncatedRatio(cap=cap, floor=floor),
        aggregation=aggregated_by(aggregation),
    )


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


def aspo(
    clip: Clip = 0.2,
    cap: float = 3.0,
    kl: float | KL = 0.0,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """ASPO (arXiv 2510.06062): A = GRPO's; min(1 / rho, cap) A if A > 0, min(rho, cap) A if not; weights are constants.

    Good tokens weigh more the less likely they have become, in the place of the more likely; tokens beyond the clip
    have no gradient, those beyond `cap` keep theirs. The first step on a batch is GRPO's. The released code clips
    tokens of low and of high entropy by limits of their own (0.2 and 0.4), which is not included, and adds 0.001 of k3
    from a reference: `kl=0.001`. The loss does not estimate the return.

    Degenerate: groups with equal rewards get zero.
    Evidence: code (the authors').
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=FlippedRatio(*both_sides(clip), cap=cap),
        aggregation=aggregated_by(aggregation),
        penalties=divergence(kl).penalty,
    )


TOP_TOKENS = 20
"""K of the divergences over the most likely tokens; with a smaller vocabulary, the bucket with the rest is empty."""


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


def _log_masses(log_probs: Array, top_log_probs: Array, listed: Array) -> tuple[Array, Array, Array]:
    """`[P, G, T, ...]` masses of the top tokens, of the sampled token unless it is one of them, and of the rest.

    Returned separately: concatenating them would only copy memory.
    """
    lowest = math.log(1e-12)
    top = jnp.clip(top_log_probs, lowest, 0.0)
    sampled = jnp.where(listed, lowest, jnp.maximum(log_probs, lowest))
    rest = jnp.log(jnp.maximum(1.0 - jnp.exp(top).sum(axis=-1) - jnp.exp(sampled), 1e-12))
    return top, sampled[..., None], rest[..., None]


def dppo(
    divergence: Literal["binary_tv", "binary_kl", "top_tv", "top_kl"] = "binary_tv",
    threshold: float | None = None,
    ratio_cap: float | None = None,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """DPPO (arXiv 2602.04879): sg(M min(rho, C)) A log pi, M = 0 where pi moves away and D(mu, pi) > threshold.

    A is r - group mean. D is measured between the policy that sampled and the policy being trained, see
    `DivergenceMask`. `threshold = None` is 0.15 for total variation (0.2 in the paper's scaling runs) and 0.05 for KL.
    `ratio_cap` is C: none in the paper's stability study, 5 in its scaling runs.

    Degenerate: groups with equal rewards get zero.
    Evidence: paper and code (Stable-RL, verl).
    Peers: verl, prime-rl.
    """
    if threshold is None:
        threshold = 0.15 if divergence.endswith("tv") else 0.05
    return Objective(
        advantages=GroupMean(),
        surrogate=DivergenceMask(divergence, threshold=threshold, ratio_cap=ratio_cap),
        aggregation=aggregated_by(aggregation),
    )
