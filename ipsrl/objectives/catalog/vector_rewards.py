"""Objectives that read several rewards of each answer, `Rollouts.reward_parts`, in the place of one."""

from ipsrl.objectives.advantages.reward_parts import SumOfNormalised
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates.ratio import ClippedRatio


def gdpo(
    weights: tuple[float, ...] | None = None,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GDPO (arXiv 2601.05242): A = S / std of S over the batch, S = sum_m w_m norm(r_m), r_m its M rewards.

    GRPO takes norm of the sum, in which a reward of large variance drowns the others; here each counts by its weight.
    The weights are equal by default. Standard deviations are the population's, and no epsilon is added; TRL divides by
    one answer less, and adds 1e-4.

    Degenerate: a reward that is equal in a group adds nothing there; groups in which all are equal get exactly zero.
    Evidence: code (TRL).
    Peers: TRL, verl, NeMo-RL.
    """
    return Objective(
        advantages=SumOfNormalised(weights),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )
