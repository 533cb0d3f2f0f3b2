"""Objectives that read several rewards of each answer, `Rollouts.reward_parts`, in the place of one."""

from ipsrl.objectives.advantages.reward_parts import BestOfSetsByWeights, SumOfNormalised
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


def vector_po(
    k: int = 2,
    divisions: int = 16,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """VPO (arXiv 2605.22817): A = E[f(S) | o in S] - E[f(S)], f = mean_w max_S w . r, w weights, S k of G.

    r are the M rewards of an answer, and w ~ Dirichlet(1, .., 1): a set is worth more if each of its answers is best
    for some weights. The mean over w is that over a grid of `divisions` to a side, C(divisions + M - 2, M - 1) vectors
    in all. In the paper a set is sampled as one answer; here sets are all those of k in the group, as in Poly-PPO, and
    nothing divides by a standard deviation (our reading). The defaults of `k` and `divisions` are our choice.

    Degenerate: groups whose answers are equal in each reward get exactly zero.
    Evidence: second-hand; the flat Dirichlet is our reading, the exact mean over sets is derived.
    """
    return Objective(
        advantages=BestOfSetsByWeights(k, divisions),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )
