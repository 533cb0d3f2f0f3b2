"""Inverse probability scaling (arXiv 2601.21669) and its variants."""

from typing import Any, Literal

from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.kl import kl_penalty
from ipsrl.objectives.objective import Objective, RolloutPart
from ipsrl.objectives.penalties.entropy_bonus import entropy_bonus
from ipsrl.objectives.penalties.kullback_leibler import LossEstimator
from ipsrl.objectives.shaping.inverse_scaling import (
    InverseFrequency,
    InverseMovingFrequency,
    InverseProbability,
    InverseProbabilityLearned,
)
from ipsrl.objectives.surrogates.ratio import ClippedRatio, PolicyGradient

Probability = Literal["counts", "offset", "ema", "exact"]
Backward = Literal["uniform", "learned"]

# Defaults of arguments that only some estimates of the probability use (our reading of the sources, except the floor).
FLOOR = 0.0
PSEUDO_COUNT = 0.0
EMA_RATE = 0.1
DECAY = 0.99
LOG_RATIO_CAP = 20.0
ADVANTAGE_CAP = 10.0
BACKWARD = "uniform"


def ips_reinforce(
    alpha: float = 1.0,
    floor: float = FLOOR,
    probability: Probability = "counts",
    pseudo_count: float = PSEUDO_COUNT,
    ema_rate: float = EMA_RATE,
    backward: Backward = BACKWARD,
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    effective_share: float = 0.0,
    kl: float = 0.0,
    kl_estimator: LossEstimator = "k3",
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """IPS-REINFORCE (arXiv 2601.21669, Theorem 4.1): A = r / p(outcome)^alpha: rule V on r~.

    The ideal flow (dz_i/dt = r_i - p_i sum(r) at alpha = 1) ends at p proportional to r^(1/alpha). `probability` is the
    estimate of p:

    - `counts`: max(phat, floor), phat = (n + pseudo_count) / (G + pseudo_count) with n the outcome's count in the
      group. The paper has no pseudo-count; a positive one narrows the range of the weights (add-lambda).
    - `offset`: the same with pseudo_count = (alpha - 1) / 2, which removes the bias of order 1/G.
    - `ema`: max(pbar, floor), pbar <- (1 - ema_rate) pbar + ema_rate phat from batch to batch, a table of outcomes.
    - `exact`: the policy's trajectory probability divided by a `backward` probability, the environment's `uniform` one,
      or one `learned` by maximum likelihood on earlier batches. Rewards are then divided by a running mean; `decay` is
      that of this mean (and of the learned counts), `log_ratio_cap` bounds the logarithm of the quotient,
      `advantage_cap` bounds |A| (our reading).

    Rewards must not be negative: counts would push the rarest mistakes down most, and `exact` ignores them. `kl` pulls
    the policy to the reference: with the estimator k2, by KL(policy || reference) on average, no outcome dies. The
    paper's weight is not in our sources; the default is none.

    `effective_share` > 0 lowers alpha in each group until the effective sample size of the weights, (sum w)^2 / sum
    w^2, is that share of the group (our reading).

    Degenerate: groups without reward get zero.
    Evidence: paper (counts, floor); derived (offset, ema, pseudo_count); code (exact); our reading (effective_share).
    """
    shaping, limit = _inverse(
        probability,
        alpha,
        effective_share,
        floor=floor,
        pseudo_count=pseudo_count,
        ema_rate=ema_rate,
        backward=backward,
        decay=decay,
        log_ratio_cap=log_ratio_cap,
        advantage_cap=advantage_cap,
    )
    return Objective(
        reward_shaping=(shaping,),
        advantages=NoBaseline(limit=limit),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
        penalties=kl_penalty(kl, kl_estimator),
    )


def ips_grpo(
    alpha: float = 1.0,
    floor: float = FLOOR,
    probability: Probability = "counts",
    pseudo_count: float = PSEUDO_COUNT,
    ema_rate: float = EMA_RATE,
    backward: Backward = BACKWARD,
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    effective_share: float = 0.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    kl_estimator: LossEstimator = "k3",
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """IPS-GRPO (arXiv 2601.21669, Algorithm 1): r~ = r / max(phat, floor)^alpha, then GRPO: rule N on r~.

    A = (r~ - group mean) / group std. The paper's headline is floor 0.2 at group size 16; a floor up to 1/G has no
    effect. `probability` and its arguments: see `ips_reinforce`; the std removes any common scale, so with `exact` the
    running mean matters only where `log_ratio_cap` acts.

    Degenerate: groups whose scaled rewards are all equal get zero: one outcome, or no reward.
    Evidence: paper (counts, floor); derived (offset, ema, pseudo_count); code (exact); our reading (effective_share).
    """
    shaping, limit = _inverse(
        probability,
        alpha,
        effective_share,
        floor=floor,
        pseudo_count=pseudo_count,
        ema_rate=ema_rate,
        backward=backward,
        decay=decay,
        log_ratio_cap=log_ratio_cap,
        advantage_cap=advantage_cap,
    )
    return Objective(
        reward_shaping=(shaping,),
        advantages=GroupMeanStd(unbiased=unbiased_std, limit=limit),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=aggregated_by(aggregation),
        penalties=kl_penalty(kl, kl_estimator) + entropy_bonus(entropy),
    )


def ips_dr_grpo(
    alpha: float = 1.0,
    floor: float = FLOOR,
    probability: Probability = "counts",
    pseudo_count: float = PSEUDO_COUNT,
    ema_rate: float = EMA_RATE,
    backward: Backward = BACKWARD,
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    effective_share: float = 0.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    kl_estimator: LossEstimator = "k3",
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """IPS with Dr. GRPO (after arXiv 2601.21669): r~ = r / max(phat, floor)^alpha, A = r~ - group mean: rule B on r~.

    At alpha = 1 its mean field with group size G is that of rule V with G - 1: the baseline costs one sample.
    `probability` and its arguments: see `ips_reinforce`.

    Degenerate: groups whose scaled rewards are all equal get zero: one outcome, or no reward.
    Evidence: derived (rule B of the finite-group theory); the estimates of the probability as in `ips_reinforce`.
    """
    shaping, limit = _inverse(
        probability,
        alpha,
        effective_share,
        floor=floor,
        pseudo_count=pseudo_count,
        ema_rate=ema_rate,
        backward=backward,
        decay=decay,
        log_ratio_cap=log_ratio_cap,
        advantage_cap=advantage_cap,
    )
    return Objective(
        reward_shaping=(shaping,),
        advantages=GroupMean(limit=limit),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=aggregated_by(aggregation),
        penalties=kl_penalty(kl, kl_estimator) + entropy_bonus(entropy),
    )


# Argument -> its default, and the estimates of the probability that use it.
BELONGS_TO = {
    "floor": (FLOOR, ("counts", "offset", "ema")),
    "pseudo_count": (PSEUDO_COUNT, ("counts",)),
    "ema_rate": (EMA_RATE, ("ema",)),
    "backward": (BACKWARD, ("exact",)),
    "decay": (DECAY, ("exact",)),
    "log_ratio_cap": (LOG_RATIO_CAP, ("exact",)),
    "advantage_cap": (ADVANTAGE_CAP, ("exact",)),
}


def _inverse(
    probability: Probability, alpha: float, effective_share: float, **arguments: Any
) -> tuple[RolloutPart, float | None]:
    """The part that scales rewards, and its cap on |A|."""
    for name, (default, users) in BELONGS_TO.items():
        if arguments[name] != default and probability not in users:
            raise ValueError(f"{name}={arguments[name]} belongs to probability={' or '.join(users)}: leave it out")
    floor, decay, log_ratio_cap = (arguments[name] for name in ("floor", "decay", "log_ratio_cap"))
    if probability == "exact":
        kind = InverseProbability if arguments["backward"] == "uniform" else InverseProbabilityLearned
        return kind(alpha, decay, log_ratio_cap, effective_share=effective_share), arguments["advantage_cap"]
    if probability == "ema":
        return InverseMovingFrequency(alpha, floor, arguments["ema_rate"], effective_share=effective_share), None
    pseudo_count = (alpha - 1.0) / 2.0 if probability == "offset" else arguments["pseudo_count"]
    return InverseFrequency(alpha, floor, pseudo_count, effective_share=effective_share), None
