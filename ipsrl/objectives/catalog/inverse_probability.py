"""Inverse probability scaling (arXiv 2601.21669) and its variants."""

from typing import Literal

from ipsrl.objectives.advantages import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.catalog import choices
from ipsrl.objectives.inverse_probability import InverseFrequency, InverseProbability
from ipsrl.objectives.objective import Objective, RolloutPart
from ipsrl.objectives.surrogates import ClippedRatio, PolicyGradient

Probability = Literal["counts", "exact"]

# Defaults of what only `probability="exact"` uses (our reading of the sources).
DECAY = 0.99
LOG_RATIO_CAP = 20.0
ADVANTAGE_CAP = 10.0


def ips_reinforce(
    alpha: float = 1.0,
    floor: float = 0.0,
    probability: Probability = "counts",
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    aggregation: choices.AggregationName = "sequence_sum",
) -> Objective:
    """IPS without a baseline: (r / p^alpha) grad log pi (arXiv 2601.21669, Theorem 4.1; rule V).

    The ideal flow (dz_i/dt = r_i - p_i sum(r) at alpha = 1) ends at p proportional to r^(1/alpha). `probability` says
    what p is: `counts`, the outcome's frequency in the group, not below `floor`; `exact`, the policy's own trajectory
    probability over the environment's backward probability.

    `exact` alone uses `decay`, of the running mean that the scaled rewards are divided by, `log_ratio_cap`, on the
    logarithm of that quotient, and `advantage_cap`, on |A| (our reading).
    """
    shaping, limit = _inverse(alpha, floor, probability, decay, log_ratio_cap, advantage_cap)
    return Objective(
        reward_shaping=(shaping,),
        advantages=NoBaseline(limit=limit),
        surrogate=PolicyGradient(),
        aggregation=choices.aggregated_by(aggregation),
    )


def ips_grpo(
    alpha: float = 1.0,
    floor: float = 0.0,
    probability: Probability = "counts",
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    kl_estimator: choices.Estimator = "k3",
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: choices.AggregationName = "sequence_mean",
) -> Objective:
    """IPS-GRPO (arXiv 2601.21669, Algorithm 1): rewards over the outcome's probability, then GRPO as it stands.

    r~ = r / max(phat, floor)^alpha, A = (r~ - group mean) / group std. The paper's headline is floor 0.2 at group
    size 16; a floor up to 1/G does nothing. `probability="exact"` and what belongs to it: see `ips_reinforce`;
    the std takes any common scale out, so that `decay` acts only where `log_ratio_cap` does.
    """
    shaping, limit = _inverse(alpha, floor, probability, decay, log_ratio_cap, advantage_cap)
    return Objective(
        reward_shaping=(shaping,),
        advantages=GroupMeanStd(unbiased=unbiased_std, limit=limit),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.divergence(kl, kl_estimator) + choices.entropy_bonus(entropy),
    )


def ips_dr_grpo(
    alpha: float = 1.0,
    floor: float = 0.0,
    probability: Probability = "counts",
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    entropy: float = 0.0,
    aggregation: choices.AggregationName = "constant_length",
) -> Objective:
    """IPS with the group's mean as baseline and no std: Dr. GRPO on r / p^alpha (after arXiv 2601.21669; rule B).

    At alpha = 1 its mean field with group size G is that of rule V with G - 1: the baseline costs one sample.
    `probability="exact"` and what belongs to it: see `ips_reinforce`.
    """
    shaping, limit = _inverse(alpha, floor, probability, decay, log_ratio_cap, advantage_cap)
    return Objective(
        reward_shaping=(shaping,),
        advantages=GroupMean(limit=limit),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.entropy_bonus(entropy),
    )


def _inverse(
    alpha: float,
    floor: float,
    probability: Probability,
    decay: float,
    log_ratio_cap: float,
    advantage_cap: float,
) -> tuple[RolloutPart, float | None]:
    """The part that scales rewards, and the cap on |A| that goes with it."""
    if probability == "counts":
        if (decay, log_ratio_cap, advantage_cap) != (DECAY, LOG_RATIO_CAP, ADVANTAGE_CAP):
            raise ValueError("decay, log_ratio_cap and advantage_cap belong to probability=exact: leave them out")
        return InverseFrequency(alpha, floor), None
    if floor != 0.0:
        raise ValueError(f"floor={floor} bounds a frequency; probability=exact has caps of its own: leave floor out")
    return InverseProbability(alpha, decay, log_ratio_cap), advantage_cap
