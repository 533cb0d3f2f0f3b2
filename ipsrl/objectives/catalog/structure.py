"""Objectives that look at the structure of a group, or of an answer: strata, anchors, refinements, plans, modes."""

from typing import Literal

from ipsrl.objectives.advantages import GroupMean
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.catalog import choices
from ipsrl.objectives.control_token import ControlAndResponse
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.off_policy import DistinctPairs, ShapedOffPolicy, Similarity
from ipsrl.objectives.planning import Planned, PlanningBonus
from ipsrl.objectives.strata import BestOfMode, PreferredMode, StratifiedNorm, Stratum
from ipsrl.objectives.surrogates import ClippedRatio

GAMMA = 0.1


def stratified_grpo(
    alpha: float = 0.8,
    stratum: Stratum = "planning",
    width: int = 1,
    standardise: bool = True,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    aggregation: choices.AggregationName = "sequence_mean",
) -> Objective:
    """Stratified GRPO (arXiv 2510.06214): A = alpha norm(r in its stratum) + (1 - alpha) norm(r in its group).

    A search agent's strata are its numbers of tool calls. Here, `stratum` is the number of `planning` tokens, the
    `length` in tokens (both in bins of `width`), or the `first_token`. `standardise=False` leaves both standard
    deviations out. At alpha = 1 the policy never learns which stratum is better, since it chooses the stratum itself:
    the advantages of each stratum sum to zero. alpha = 0.8 is unverified; sweep it.

    Degenerate: a stratum of one answer, or of equal rewards, has 1 - alpha of GRPO's advantages; equal groups get zero.
    Evidence: second-hand (two sources that agree); alpha, the keys and the bins are our reading.
    """
    return Objective(
        advantages=StratifiedNorm(alpha, stratum, width, standardise),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
    )


def dagrpo(
    tau: float = 0.5,
    over: Literal["mean", "max"] = "mean",
    similarity: Similarity = "tokens",
    baseline: Literal["kept", "group"] = "kept",
    anchors: bool = False,
    gamma: float | None = GAMMA,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Objective:
    """DaGRPO (arXiv 2512.06337): GRPO over answers with mean_j d_ij >= tau, d_ij = |r_i - r_j| * unlikeness of tokens.

    j are the answers on the other side of the group's mean; `over="max"` asks for one distinct j only. The paper's
    scores come from a language model's grades; ours are the rewards, and `similarity`, the share of tokens in common or
    having the same outcome, stands for what a grader would call alike. Without it, rewards of 0 and 1 give GRPO. The
    loss is a mean over the kept answers of a group. `anchors` takes the answers that `off_policy` marks for an
    expert's: they count in the group's mean and std, and their surrogate is A p / (p + gamma). Only hard prompts have
    one: the rule of the training loop that puts them in takes `at_most`, the highest mean reward of such a group.

    Degenerate: groups without a distinct pair get zero.
    Evidence: our reading (abstract and summaries; no formula and no code was to be had).
    """
    if gamma != GAMMA and not anchors:
        raise ValueError("gamma belongs to anchors=True: leave it out")
    return Objective(
        advantages=DistinctPairs(tau, over, similarity, baseline),
        surrogate=ShapedOffPolicy(gamma, clip_low, clip_high) if anchors else ClippedRatio(clip_low, clip_high),
        aggregation=SequenceMean(),
    )


def critique_grpo(
    gamma: float | None = GAMMA,
    clip_low: float | None = None,
    clip_high: float | None = None,
    entropy: float = 0.001,
    aggregation: choices.AggregationName = "constant_length",
) -> Objective:
    """Critique-GRPO (arXiv 2506.03106): A = r - group mean; rho A on own tokens, A pi / (pi + 0.1) on a refinement's.

    `off_policy` marks refinements: answers to the question and a critique, scored as answers to the question alone. One
    of them stands in the group in place of an attempt, so that seven failed attempts next to a good refinement get
    A = -1/8 each. There is no clip, which counts on few optimiser steps for each batch, and no KL penalty; `gamma=None`
    takes pi itself. How refinements come about is not the objective's business.

    Degenerate: groups of equal rewards get zero, their entropy bonus apart.
    Evidence: code (zhangxy-2019/critique-GRPO).
    """
    return Objective(
        advantages=GroupMean(),
        surrogate=ShapedOffPolicy(gamma, clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.entropy_bonus(entropy),
    )


def hicra(
    alpha: float = 0.2,
    planned: Planned = "planning_mask",
    failures: Literal["eased", "kept", "sharpened"] = "eased",
    standardise: bool = False,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    entropy: float = 0.0,
    aggregation: choices.AggregationName = "sequence_mean",
) -> Objective:
    """HICRA (arXiv 2509.03646): A = r - group mean, plus alpha |A| on planning tokens; clip 0.2 / 0.28.

    The environment says which tokens plan. `planned="high_entropy"`, `"random"` and `"first"` are controls, the first
    two with as many tokens in each answer, hence with the same advantages; `entropy` is the paper's fourth control.
    `failures`: what becomes of planning tokens with A < 0; the formula eases them, which one summary denies.

    Degenerate: groups of equal rewards get zero.
    Evidence: second-hand (two sources and a port agree on the formula); clip values and aggregation are our reading.
    """
    return Objective(
        advantages=choices.centred(standardise),
        reweighting=(PlanningBonus(alpha, planned, failures),),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.entropy_bonus(entropy),
    )


def degrpo(
    alpha: float = 0.001,
    response: Literal["sequence_mean", "token_mean"] = "sequence_mean",
    standardise: bool = False,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.001,
    kl_estimator: choices.LossEstimator = "k3",
) -> Objective:
    """DeGRPO (arXiv 2505.13379): A = r - group mean; alpha times the first token's loss + the rest's mean.

    Thinkless: the first token chooses between a short answer and a long one; alpha sets how fast that choice converges
    against the skill of answering, whatever the length. `response`: the mean over the later tokens of each answer
    (paper) or over those of the batch (code). No mode needs a name: every answer's first token is taken for the choice.
    `kl` is the paper's 0.001.

    Degenerate: groups of equal rewards get zero, their KL penalty apart; an answer of one token has no response part.
    Evidence: paper and code (VainF/Thinkless); that the KL penalty does not split off the first token is the code's.
    """
    return Objective(
        advantages=choices.centred(standardise),
        surrogate=ControlAndResponse(ClippedRatio(clip_low, clip_high), alpha, response),
        aggregation=choices.aggregated_by(response),
        penalties=choices.divergence(kl, kl_estimator),
    )


def hgpo(
    think_token: int = 0,
    delta: float = 0.2,
    alpha: float = 1.0,
    clip_low: float = 0.5,
    clip_high: float = 0.5,
    kl: float = 0.001,
    kl_estimator: choices.LossEstimator = "k3",
    aggregation: choices.AggregationName = "sequence_mean",
) -> Objective:
    """HGPO (arXiv 2505.14631): A = norm(best of its mode), + alpha norm(its mode won) on token 1; modes: think or not.

    norm is GRPO's, (x - mean) / std of the group. An answer thinks where its first token is `think_token`; the other
    mode has a head start of `delta` in the comparison of mean rewards. The paper forces half of a group into each mode;
    here the modes are those that the policy draws, so it has to know both: while no answer begins with `think_token`
    (0 is the padding of text, which never does), what is left is GRPO on who is the best of the group. `kl` is the
    paper's 0.001, of k3.

    Degenerate: a group in one mode, or at a tie between them, has no second term (our reading); at equal rewards the
    first term is zero, and the second one prefers not to think, by the head start.
    Evidence: paper; that all the best of a mode count where they tie is our reading.
    """
    return Objective(
        advantages=BestOfMode(think_token),
        reweighting=(PreferredMode(think_token, delta, alpha),),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
        penalties=choices.divergence(kl, kl_estimator),
    )
