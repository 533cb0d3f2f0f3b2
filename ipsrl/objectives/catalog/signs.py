"""Objectives that treat correct and wrong answers by rules of their own."""

from ipsrl.objectives.advantages.baselines import NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.shaping.signed_rewards import SignedReward
from ipsrl.objectives.surrogates.ratio import ClippedRatio


def w_reinforce(
    positive: float = 0.1,
    negative: float = 1.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """W-REINFORCE (arXiv 2506.01347): A = positive r - negative (1 - r), no baseline: 0.1 if correct, -1 if wrong.

    `positive=0` learns from wrong answers alone (NSR), `negative=0` from correct ones alone (PSR, A = r). Rewards
    between 0 and 1 are mixed linearly (our reading). On-policy the mean update is positive + negative times that of
    REINFORCE, as both differ by a constant alone: what NSR keeps that PSR loses comes from noise, clips, lengths, or
    steps that are too large to be told by their mean. Clip and mean over tokens are those of verl, on which the code is
    built.

    Degenerate: no group gets zero, even if all rewards are equal; with `negative=0` those without reward do.
    Evidence: code; that the mean update is REINFORCE's is derived.
    """
    return Objective(
        reward_shaping=(SignedReward(positive, negative),),
        advantages=NoBaseline(),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )
