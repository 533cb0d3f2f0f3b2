"""Objectives with off-policy answers: an expert's, or refinements after a critique."""

from typing import Literal

from ipsrl.objectives.advantages.baselines import GroupMean
from ipsrl.objectives.advantages.distinct_pairs import DistinctPairs, Similarity
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.penalties.entropy_bonus import entropy_bonus
from ipsrl.objectives.surrogates.ratio import ClippedRatio
from ipsrl.objectives.surrogates.shaped_off_policy import ShapedOffPolicy

GAMMA = 0.1


def dagrpo(
    tau: float = 0.5,
    over: Literal["mean", "max"] = "mean",
    similarity: Similarity = "tokens",
    baseline: Literal["kept", "group"] = "kept",
    anchors: bool = False,
    gamma: float | None = GAMMA,
    clip: Clip = 0.2,
) -> Objective:
    """DaGRPO (arXiv 2512.06337): GRPO over answers with mean_j d_ij >= tau, d_ij = |r_i - r_j| * unlikeness of tokens.

    j are the answers on the other side of the group's mean; `over="max"` requires a single distinct j. The paper's
    scores are a language model's grades; ours are the rewards, and `similarity` (the share of tokens in common, or the
    same outcome) replaces the grader's judgement. Without it, rewards of 0 and 1 give GRPO. The loss is a mean over the
    kept answers of a group. `anchors` treats the answers marked `off_policy` as an expert's: they count in the group's
    mean and std, and their surrogate is A p / (p + gamma). Only hard prompts have one: the batch filter that adds them
    takes `at_most`, the highest mean reward of such a group.

    Degenerate: groups without a distinct pair get zero.
    Evidence: our reading (abstract and summaries; neither formula nor code was available).
    """
    if gamma != GAMMA and not anchors:
        raise ValueError("gamma belongs to anchors=True: leave it out")
    return Objective(
        advantages=DistinctPairs(tau, over, similarity, baseline),
        surrogate=ShapedOffPolicy(gamma, *both_sides(clip)) if anchors else ClippedRatio(*both_sides(clip)),
        aggregation=SequenceMean(),
    )


def critique_grpo(
    gamma: float | None = GAMMA,
    clip: Clip | None = None,
    entropy: float = 0.001,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Critique-GRPO (arXiv 2506.03106): A = r - group mean; rho A on own tokens, A pi / (pi + 0.1) on a refinement's.

    `off_policy` marks refinements: answers to the question and a critique, scored as answers to the question alone. One
    of them replaces an attempt in the group, so seven failed attempts with one good refinement get A = -1/8 each. There
    is no clip, which assumes few optimiser steps for each batch, and no KL penalty; `gamma=None` uses pi itself. The
    batch filter `off_policy` supplies the refinements.

    Degenerate: groups of equal rewards get zero, except the entropy bonus.
    Evidence: code (zhangxy-2019/critique-GRPO).
    """
    limits = (None, None) if clip is None else both_sides(clip)
    return Objective(
        advantages=GroupMean(),
        surrogate=ShapedOffPolicy(gamma, *limits),
        aggregation=aggregated_by(aggregation),
        penalties=entropy_bonus(entropy),
    )
