"""Effects of more computation at test time on a distribution of answers: longer thinking, or a vote over short ones."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import softmax

from ipsrl.checking.arguments import checked
from ipsrl.measures.diversity import (
    effective_outcomes_of_distribution,
    entropy_of_distribution,
)

TINY = 1e-30
Thought = tuple[np.ndarray, np.ndarray]
"""The distribution of an answer, and which of its outcomes are right."""


def inflated(log_probs: np.ndarray, times: float) -> np.ndarray:
    """`[..., K]`, p^(1 / times), normalised: the distribution with logits divided by `times`, which is above 0.

    If the logits are those of a Gaussian on a line, this is the Gaussian with `times` its variance: our reading of how
    long thinking fails in arXiv 2506.04210, where each unit of thought adds variance. Below 1 it sharpens.
    """
    return softmax(log_probs / times, axis=-1)


@checked
def majority_vote(probs: np.ndarray, answers: int, repeats: int = 256) -> np.ndarray:
    """`[..., K]`, the distribution of the most frequent of some independent answers; of tied ones each is as likely.

    Estimated from `repeats` votes.

    Args:
      probs: `[..., K]`, of one answer.
      answers: number of answers in a vote.
    """
    rng = np.random.default_rng(0)
    size = (repeats, *probs.shape[:-1])
    votes = rng.multinomial(answers, probs, size=size)
    most = votes == votes.max(axis=-1, keepdims=True)
    shares = most / most.sum(axis=-1, keepdims=True)
    return shares.mean(axis=0)


@checked
def frequencies(outcome_id: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Answers `[P, N]` as a distribution `[P, N]` over the places where an outcome comes first, and which are right.

    Args:
      outcome_id: `[P, N]` int, equal for equal outcomes of a prompt; all answers without an outcome have -1.
      right: `[P, N]` bool, the same for equal outcomes.
    """
    same = outcome_id[:, :, None] == outcome_id[:, None, :]
    first = same.argmax(axis=-1)
    places = np.arange(outcome_id.shape[1])
    is_first = first[:, :, None] == places
    probs = is_first.mean(axis=1)
    return probs, right & (probs > 0)


@checked
def answer_measures(probs: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """Measures distributions `[..., P, K]` of answers to P prompts, where `right` is `[P, K]`; each value is `[...]`.

    accuracy     the mean over prompts of the probability of the right outcomes
    exp_entropy  exp of the mean entropy, in nats
    effective    exp(H) of the shares of the right outcomes of a prompt, mean over all right answers; 0 without any
    """
    kept = probs * right
    mass = kept.sum(axis=-1)
    shares = kept / np.maximum(mass[..., None], TINY)
    entropy = np.asarray(entropy_of_distribution(probs), np.float64)
    effective = np.asarray(effective_outcomes_of_distribution(shares), np.float64)
    of_all = (mass * effective).sum(axis=-1)
    of_prompts = np.maximum(mass.sum(axis=-1), TINY)
    return {
        "accuracy": mass.mean(axis=-1),
        "exp_entropy": np.exp(entropy.mean(axis=-1)),
        "effective": of_all / of_prompts,
    }


def by_budget(ways: Mapping[str, Sequence[Thought]]) -> dict[str, np.ndarray]:
    """Ways to spend a budget: way -> what is thought with each budget.

    Returns:
      for each way its accuracy, `lost_` what that is below the best accuracy of the way "long" at any budget, and the
      `effective_` right outcomes; `[..., budgets]`.
    """
    values = {}
    for way, of_way in ways.items():
        found = [answer_measures(probs, right) for probs, right in of_way]
        accuracy = [each["accuracy"] for each in found]
        effective = [each["effective"] for each in found]
        values[way] = np.stack(accuracy, axis=-1)
        values[f"effective_{way}"] = np.stack(effective, axis=-1)
    best = values["long"].max(axis=-1, keepdims=True)
    return values | {f"lost_{way}": best - values[way] for way in ways}
