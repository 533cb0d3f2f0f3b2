"""Objectives with a separate weight for tokens that plan, or that choose how to answer."""

from typing import Literal

from ipsrl.objectives.advantages.baselines import group_centred
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.penalties.entropy_bonus import entropy_bonus
from ipsrl.objectives.reweighting.planning import Planned, PlanningBonus
from ipsrl.objectives.surrogates.control_token import ControlAndResponse
from ipsrl.objectives.surrogates.ratio import ClippedRatio


def hicra(
    alpha: float = 0.2,
    planned: Planned = "planning_mask",
    failures: Literal["eased", "kept", "sharpened"] = "eased",
    standardise: bool = False,
    clip: Clip = (0.2, 0.28),
    entropy: float = 0.0,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """HICRA (arXiv 2509.03646): A = r - group mean, plus alpha |A| on planning tokens; clip 0.2 / 0.28.

    The environment marks the planning tokens. `planned="high_entropy"`, `"random"` and `"first"` are controls, the
    first two with as many tokens in each answer, hence with the same advantages; `entropy` is the paper's fourth
    control. `failures` sets the treatment of planning tokens with A < 0: the formula eases them, one summary
    contradicts it.

    Degenerate: groups of equal rewards get zero.
    Evidence: second-hand (two sources and a port agree on the formula); clip values and aggregation are our reading.
    """
    return Objective(
        advantages=group_centred(standardise),
        reweighting=(PlanningBonus(alpha, planned, failures),),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
        penalties=entropy_bonus(entropy),
    )


def degrpo(
    alpha: float = 0.001,
    response: Literal["sequence_mean", "token_mean"] = "sequence_mean",
    standardise: bool = False,
    clip: Clip = 0.2,
    kl: float | KL = 0.001,
) -> Objective:
    """DeGRPO (arXiv 2505.13379): A = r - group mean; alpha times the first token's loss + the rest's mean.

    Thinkless: the first token chooses between a short and a long answer; alpha sets how fast that choice converges
    relative to the skill of answering, independent of length. `response`: the mean over the later tokens of each answer
    (paper) or over those of the batch (code). Modes need no names: the first token is the choice, unless dictated.
    `kl` is the paper's 0.001.

    Degenerate: groups of equal rewards get zero, except the KL penalty; an answer of one token has no response part.
    Evidence: paper and code (VainF/Thinkless); that the KL penalty does not split off the first token is the code's.
    """
    return Objective(
        advantages=group_centred(standardise),
        surrogate=ControlAndResponse(ClippedRatio(*both_sides(clip)), alpha, response),
        aggregation=aggregated_by(response),
        penalties=divergence(kl).penalty,
    )
