"""Objectives of the best of several answers, in the place of their mean."""

from typing import Literal

from ipsrl.objectives.advantages.risk_seeking import BestOfSets, ExponentialUtility
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective


def rs_grpo(
    beta: float = 2.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """RS-GRPO (arXiv 2509.24261): A = (exp(beta r) / group mean of exp(beta r) - 1) / beta.

    The objective is log(E[exp(beta r)]) / beta, between the mean and the best reward; beta near 0 gives Dr. GRPO, 2 is
    what the authors recommend. With rewards 0 and 1 it is Dr. GRPO times (e^beta - 1) / (beta (1 + (e^beta - 1) m)), m
    the share of correct answers: a weight of the prompt, larger for harder ones. All correct answers get the same.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code; the weight of the prompt is derived.
    """
    return with_clip(clip, aggregation, advantages=ExponentialUtility(beta))


def top_one(
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GRPO on the best answer (arXiv 2503.19595): A = (r - second r) / group std for the best r, else 0.

    verl calls it `grpo_passk`. Without the std it estimates the gradient of the mean of the best of G rewards: it is
    `pkpo(k=G, graded=True)`. With rewards 0 and 1 only groups with exactly one correct answer teach anything. The std
    is the population's, and no epsilon is added; verl divides by that of G - 1, and adds 1e-6.

    Degenerate: groups in which two answers share the largest reward get exactly zero.
    Evidence: code (verl).
    Peers: verl.
    """
    return with_clip(clip, aggregation, advantages=BestOfSets(graded=True, standardise=standardise))


def pkpo(
    k: int = 2,
    baseline: Literal["rest_of_set", "other_sets", "none"] = "rest_of_set",
    graded: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """PKPO (arXiv 2505.15201): A = k/G E[max(S) - max(S without o) | o in S], S any k of the group, max(S) its best r.

    The sum over a group of A grad log pi is an unbiased estimate of the gradient of pass@k, or with `graded` of that of
    the mean of the best of k rewards. With `baseline=none` a correct answer gets k/G and a wrong one k/G times the
    share of sets of k - 1 others with a correct answer; `rest_of_set` subtracts k/G times that share for all, so that
    wrong answers get zero; `other_sets` subtracts k/(G-1) pass@k of the others. With rewards 0 and 1 and k of G answers
    it is a weight of the prompt: all correct answers get the same. `pass_at_k` is another one, standardised. The
    default of k is our choice.

    Degenerate: groups whose rewards are all equal get zero by `rest_of_set`; by the others, only those without reward.
    Evidence: second-hand (equations, and re-implementations of its listing).
    """
    return with_clip(clip, aggregation, advantages=BestOfSets(k, baseline, graded))
