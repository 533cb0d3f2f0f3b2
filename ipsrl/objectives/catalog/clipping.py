"""GRPO with other treatments of tokens that moved far, or whose log-probability covaries with their advantage."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive, share
from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence, with_clip
from ipsrl.objectives.estimators.ranks import largest
from ipsrl.objectives.estimators.token_shares import rounded_down, token_covariance
from ipsrl.objectives.objective import Metrics, Objective, Penalty
from ipsrl.objectives.reweighting.token_selection import DropHighCovariance
from ipsrl.objectives.surrogates.clip_variants import (
    BalancedClip,
    DivergenceMask,
    FlippedRatio,
    GradientPreservingClip,
    ImportanceRatio,
    TruncatedRatio,
)
from ipsrl.structures import PolicyScores, Rollouts


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


BAPO: dict[str, dict[str, Any]] = {
    "paper": {
        "target": 0.4,
        "low_start": 0.6,
        "low_end": 0.9,
        "low_step": 0.02,
        "high_start": 1.2,
        "high_end": 3.0,
        "high_step": 0.05,
        "dual_clip": None,
    },
    "code": {
        "target": 1.0,
        "low_start": 0.6,
        "low_end": 0.8,
        "low_step": 0.05,
        "high_start": 1.2,
        "high_end": 2.0,
        "high_step": 0.05,
        "dual_clip": 3.0,
    },
}
"""Values of the arguments of `bapo` that are None; those of the released code are from its yaml."""


def bapo(
    form: Literal["paper", "code"] = "paper",
    target: float | None = None,
    low: tuple[float, float, float] | None = None,
    high: tuple[float, float, float] | None = None,
    dual_clip: float | None = None,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """BAPO (arXiv 2510.18927): clip(rho, c_low, c_high), limits widened until tokens with A > 0 have their share.

    Paper and released code differ in the measure (`target` is a share weighted by probability, or the unweighted
    quotient of positive to negative), in which limit moves first, in its ranges, and in the dual clip: see
    `BalancedClip`. `low` and `high` are start, end and step of a limit. Every argument that is None takes its value
    from `BAPO`; `dual_clip=1e9` switches the released dual clip off, because no ratio reaches it. The limits are
    ratios, found for each mini-batch from sums over all of it.

    Degenerate: groups with equal rewards get zero; a mini-batch of only such groups keeps the start limits.
    Evidence: paper and code (BAPO's repository); the mean over tokens is our reading.
    """
    given: dict[str, Any] = {"target": target, "dual_clip": dual_clip}
    for name, limits in (("low", low), ("high", high)):
        given |= {f"{name}_{part}": limits and limits[i] for i, part in enumerate(("start", "end", "step"))}
    released = {name: BAPO[form][name] for name, value in given.items() if value is None}
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=BalancedClip(form, **given | released),
        aggregation=aggregated_by(aggregation),
    )


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


def clip_cov(
    fraction: float = 2e-4,
    lowest: float = 1.0,
    highest: float = 5.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Clip-Cov (arXiv 2505.22617): GRPO, but A = 0 at a few random tokens with lowest < cov < highest.

    cov = (log pi - mean)(A - mean) over the valid tokens of the batch; max(1, floor(fraction N)) of N tokens are
    sampled. Our reading: cov is that of the whole batch of rollouts under the policy that sampled it, instead of each
    mini-batch under the policy being trained; both are the same on the first update of an unsplit batch. The authors'
    32B script sets both clip limits to 1.

    Degenerate: groups with equal rewards get zero; if no token lies between the limits, no token is dropped.
    Evidence: paper and code (the authors' repository, verl).
    Peers: verl.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=GroupMeanStd(),
        reweighting=(DropHighCovariance(fraction, lowest=lowest, highest=highest),),
    )


ROUNDING = 1e-5
"""Largest rounding difference, in nats, between sampler and scorer for the same token and policy."""


@dataclasses.dataclass(frozen=True)
class HighCovarianceDistance(Penalty):
    """KL-Cov: coefficient * |log pi - log mu| on the tokens of highest covariance (arXiv 2505.22617).

        on the max(1, floor(fraction N)) tokens with the largest `token_covariance`; mu is the behaviour policy

    Only tokens with positive covariance are chosen, so a batch without preferences is not penalised (our reading). At
    pi = mu the cost has no gradient, so the first update of a batch has no penalty. Differences up to `ROUNDING` count
    as zero, because the absolute value would give rounding noise a gradient of full size.
    """

    name: ClassVar[str] = "covariance"
    coefficient: float = positive(1.0, called="the coefficient of KL-Cov")
    fraction: float = share(2e-3)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        difference = jnp.where(rollouts.token_mask, scores.log_probs - rollouts.behaviour_log_probs, 0.0)
        distance = jnp.abs(difference)
        return jnp.where(distance <= ROUNDING, 0.0, distance), {}

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        covariance = token_covariance(advantages, rollouts)
        chosen = largest(covariance, covariance > 0, rounded_down(self.fraction, rollouts.token_mask))
        return jnp.where(chosen, self.coefficient, 0.0), state


def kl_cov(
    fraction: float = 2e-3,
    coefficient: float = 1.0,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """KL-Cov (arXiv 2505.22617): rho A, no clip, minus beta |log pi - log mu| on the tokens of highest cov.

    cov as in `clip_cov`, with the same reading; the max(1, floor(fraction N)) tokens with the largest cov pay
    `coefficient` times the distance to the policy that sampled. The paper's fraction is 2e-3 for 7B and 2e-4 for 32B;
    verl's default coefficient is 0.1. The penalty has no gradient on the first update of a batch.

    Degenerate: groups with equal rewards get no advantage; a batch of only such groups has no penalty.
    Evidence: paper and code (the authors' repository, verl).
    Peers: verl.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=ImportanceRatio(),
        penalties=(HighCovarianceDistance(coefficient=coefficient, fraction=fraction),),
        aggregation=aggregated_by(aggregation),
    )
