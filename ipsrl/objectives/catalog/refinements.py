"""Objectives with off-policy answers: an expert's, refinements after a critique, or those of earlier steps."""

from typing import Literal

from ipsrl.objectives.advantages.baselines import GroupMean
from ipsrl.objectives.advantages.distinct_pairs import DistinctPairs, Similarity
from ipsrl.objectives.advantages.mode_replay import ModeReplay
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.penalties.entropy_bonus import entropy_bonus
from ipsrl.objectives.surrogates.ratio import ClippedRatio
from ipsrl.objectives.surrogates.shaped_off_policy import LikelihoodOffPolicy, ShapedOffPolicy

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


def mode_replay(
    base: Literal["maxrl", "dr_grpo"] = "maxrl",
    beta: float = 0.1,
    clip: Clip = 0.2,
) -> Objective:
    """Re:Max (arXiv 2610.11064): MaxRL on own answers + beta mean over found modes of log pi(answer) / length.

    A mode is an outcome that was once right, and its answer the first such one: the batch filter `replayed_modes` keeps
    it, and adds it to every group of the prompt, marked `off_policy`. Marked answers do not count in the group's mean.
    `base=dr_grpo` is Re:Dr. On a bandit its mean update, for large groups, is p_k (r_k - E[r]) + beta (b_k - p_k), with
    b_k = 1/m for the m modes of the bank and 0 outside: training ends where p_k = beta / (m (beta + E[r] - r_k)), so
    every found mode keeps beta / (m (beta + E[r])) at least, and found modes of one reward end equally likely. As long
    as a right outcome is not found it pays beta p_k for those that are. Our readings: own answers have the mean over
    their tokens, the released code divides their sums by the longest possible answer; the replay is a mean over the
    prompts of the batch, there it is one prompt's bank in each step, and beta is multiplied by (G - 1) / G^2.

    Degenerate: own answers of equal rewards, or of no positive mean, get zero; replayed ones never do.
    Evidence: code (the authors' documentation of it); the dynamics are derived.
    """
    return Objective(
        advantages=ModeReplay(base, beta),
        surrogate=LikelihoodOffPolicy(*both_sides(clip)),
        aggregation=SequenceMean(),
    )
