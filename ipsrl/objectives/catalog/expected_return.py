"""REINFORCE, GRPO and their kin: objectives of the expected return."""

from ipsrl.objectives.advantages import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.catalog import choices
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates import ClippedRatio, PolicyGradient


def reinforce(aggregation: choices.AggregationName = "sequence_sum", entropy: float = 0.0) -> Objective:
    """Expected return, no baseline: r grad log pi (REINFORCE; rule V with alpha = 0).

    J = E[r]. On a bandit the logits flow as dz_i/dt = p_i (r_i - mean return): the likelier of two equally good
    outcomes gains as long as anything worse keeps mass (arXiv 2601.21669, Theorem 3.1).
    """
    return Objective(
        advantages=NoBaseline(),
        surrogate=PolicyGradient(),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.entropy_bonus(entropy),
    )


def grpo(
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    kl_estimator: choices.Estimator = "k3",
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: choices.AggregationName = "sequence_mean",
) -> Objective:
    """GRPO (arXiv 2402.03300): A = (r - group mean) / group std, clipped ratio, mean over each answer's tokens.

    The paper adds 0.04 of the k3 divergence to a reference policy: `kl=0.04`. The default is no penalty, so that
    objectives are compared without one. The standard deviation is the population's unless `unbiased_std`.
    """
    return Objective(
        advantages=GroupMeanStd(unbiased=unbiased_std),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.divergence(kl, kl_estimator) + choices.entropy_bonus(entropy),
    )


def dr_grpo(
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    entropy: float = 0.0,
    aggregation: choices.AggregationName = "constant_length",
) -> Objective:
    """Dr. GRPO (arXiv 2503.20783): A = r - group mean, clipped ratio, token sums over the longest answer's length."""
    return Objective(
        advantages=GroupMean(),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.entropy_bonus(entropy),
    )
