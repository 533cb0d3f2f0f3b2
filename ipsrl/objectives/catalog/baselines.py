"""Expected return, compared with another baseline than the mean of the whole group."""

from typing import Literal

from ipsrl.objectives.advantages.baselines import AboveGreedy
from ipsrl.objectives.advantages.filtered_group import FilteredGroup
from ipsrl.objectives.advantages.tracked_value import TrackedValue
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates.ratio import ClippedRatio, PolicyGradient


def remax(aggregation: AggregationName = "sequence_sum") -> Objective:
    """ReMax (arXiv 2310.10505): A = r - r(greedy answer), one for each prompt; the sum over tokens of A log pi.

    It needs the batch filter `greedy_answers`, which samples one answer more for each prompt. The baseline does not
    depend on what is sampled, so the mean update is that of REINFORCE; groups may have one answer. With rewards of 0
    and 1 only wrong answers teach where the greedy answer is right, and only right ones where it is wrong. verl puts
    the advantage in PPO's loss.

    Degenerate: groups whose rewards are all the greedy answer's get exactly zero; other groups of equal rewards do not.
    Evidence: code (verl) of the advantage; the loss is our reading.
    Peers: verl.
    """
    return Objective(
        advantages=AboveGreedy(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
    )


def spo(
    decay: float = 0.9,
    clip: Clip = (0.2, 0.28),
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """SPO (arXiv 2509.13232): A = r - v, whitened over the batch, v the prompt's mean reward in earlier batches.

    Earlier answers count `decay` times less with each batch that has the prompt; the paper lets the decay follow the
    divergence of the policy since then. A prompt's first batch is compared with its own mean, in the place of answers
    that the paper samples beforehand; on it, and so in the verdict, SPO is GRPO. Later v lags behind the policy, and
    the whitening takes off what all prompts of a batch gained. Groups may have one answer.

    Degenerate: a batch whose r - v are all equal gets exactly zero.
    Evidence: our reading (abstract); the clip is our choice.
    """
    return Objective(
        advantages=TrackedValue(decay),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )


def gfpo(
    kept: float = 0.5,
    by: Literal["length", "reward_per_token"] = "length",
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """GFPO (arXiv 2508.09726): A = norm(r) within the k = kept G shortest answers of a group, 0 for the others.

    With `by=reward_per_token`, within those of the highest reward for each token. Answers as good as the last of the k
    are kept as well, so that answers of one length are treated alike: then GFPO by length is GRPO. Without a wrong
    answer among the kept ones, correct answers teach nothing.

    Degenerate: groups whose kept answers have equal rewards get exactly zero.
    Evidence: code (EasyDeL); that ties are kept is our reading.
    Peers: EasyDeL.
    """
    return Objective(
        advantages=FilteredGroup(kept, by),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )
