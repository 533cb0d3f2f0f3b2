"""Measures of answers to prompts whose admissible outcomes are all known (HypoSpace, arXiv 2510.15614).

A prompt with A admissible outcomes is asked N = A times, under one of two protocols:

- "independent": N i.i.d. samples of the same prompt.
- "with_history": N queries in a row, each prompt listing the earlier answers (the benchmark's own protocol).

The measures are the same for both, their values are not: on average, independent uniform samples of admissible outcomes
recover only 1 - (1 - 1/A)^A of them (`independent_ceiling`), while a policy that reads its history can recover all. So
every report must name its protocol.

An outcome id is the position of a hypothesis in the hypothesis space, of size K; -1 marks an answer that did not parse.
Ids of K and above are allowed for parsed answers outside the space: they count as distinct, but recover nothing. All of
this runs on the host, in NumPy.
"""

import dataclasses
from typing import Literal

import numpy as np

from ipsrl.checking.arguments import checked

Protocol = Literal["independent", "with_history"]


@checked
def independent_ceiling(admissible_size: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Expected recovery of N independent samples, uniform over A admissible outcomes: 1 - (1 - 1/A)^N.

    No independent policy does better on average; about 0.632 if N = A is large.

    Raises:
      ValueError: A < 1 or N < 0.
    """
    admissible_size, queries = np.asarray(admissible_size, float), np.asarray(queries)
    if np.any(admissible_size < 1) or np.any(queries < 0):
        raise ValueError(
            "independent_ceiling needs at least one admissible outcome and a non-negative number of queries"
        )
    return 1.0 - (1.0 - 1.0 / admissible_size) ** queries


@checked
def parse_rate(outcome_id: np.ndarray) -> float:
    """Share of the N answers `outcome_id` `[N]` that parsed."""
    return float(np.mean(_answers(outcome_id) >= 0))


@checked
def validity(valid: np.ndarray) -> float:
    """Share of all N answers, parsed or not, that agree with every observation; `valid` is `[N]` bool."""
    return float(np.mean(_answers(valid)))


@checked
def uniqueness(outcome_id: np.ndarray) -> float:
    """Number of distinct parsed answers, valid or not, over all N answers; `outcome_id` is `[N]`."""
    answers = _answers(outcome_id)
    return len(np.unique(answers[answers >= 0])) / len(answers)


@checked
def recovery(outcome_id: np.ndarray, admissible: np.ndarray) -> float:
    """Number of distinct admissible outcomes among answers `[N]`, over A, the number of True in `admissible` `[K]`.

    Raises:
      ValueError: no outcome is admissible, or there is no answer.
    """
    admissible = np.asarray(admissible, bool)
    if not admissible.any():
        raise ValueError("recovery is undefined for a prompt without an admissible outcome")
    answers = _answers(outcome_id)
    if not np.issubdtype(answers.dtype, np.integer):
        raise ValueError(f"outcome_id has the type {answers.dtype}, it must hold integers")
    answers = answers[(answers >= 0) & (answers < len(admissible))]
    return len(np.unique(answers[admissible[answers]])) / int(admissible.sum())


@dataclasses.dataclass(frozen=True)
class AnswerMeasures:
    """The measures of a batch of prompts; all arrays are `[P]`, float64 unless stated otherwise.

    Attributes:
      protocol: how answers were requested.
      admissible_size: A, int64.
      parse_rate, validity, uniqueness, recovery: as the functions of this module.
      ceiling: `independent_ceiling(admissible_size, admissible_size)`; a bound only for the protocol "independent".
    """

    protocol: Protocol
    admissible_size: np.ndarray
    parse_rate: np.ndarray
    validity: np.ndarray
    uniqueness: np.ndarray
    recovery: np.ndarray
    ceiling: np.ndarray

    def means(self) -> dict[str, float]:
        """Mean of every measure over prompts; each prompt weighs the same, whatever its A."""
        names = ("parse_rate", "validity", "uniqueness", "recovery", "ceiling")
        return {name: float(getattr(self, name).mean()) for name in names}

    def recovery_between(self, low: int, high: int) -> float | None:
        """Mean recovery of the prompts with low <= A <= high, None if there are none.

        A varies from 1 to hundreds between prompts, and one answer to a prompt with A = 1 recovers all or nothing, so
        the mean over all prompts can hide changes at large A.
        """
        within = (self.admissible_size >= low) & (self.admissible_size <= high)
        return float(self.recovery[within].mean()) if within.any() else None


@checked
def measure_answers(
    outcome_id: np.ndarray, valid: np.ndarray, admissible: np.ndarray, protocol: Protocol
) -> AnswerMeasures:
    """All measures of a batch of prompts, each over its own first A answers.

    Args:
      outcome_id: `[P, M]` int, M at least the largest A; answers after a prompt's first A are ignored.
      valid: `[P, M]` bool, whether each answer agrees with every observation.
      admissible: `[P, K]` bool.
      protocol: how answers were requested.

    Raises:
      ValueError: the shapes do not fit, a prompt has no admissible outcome or too few answers, or the protocol is
        unknown.
    """
    outcome_id, valid, admissible = np.asarray(outcome_id), np.asarray(valid, bool), np.asarray(admissible, bool)
    if outcome_id.ndim != 2 or valid.shape != outcome_id.shape:
        raise ValueError(f"outcome_id {outcome_id.shape} and valid {valid.shape} must both be [prompt, answer]")
    if admissible.ndim != 2 or len(admissible) != len(outcome_id):
        raise ValueError(f"admissible {admissible.shape} must be [prompt, outcome] with {len(outcome_id)} prompts")
    sizes = admissible.sum(axis=1)
    ceiling = independent_ceiling(sizes, sizes)
    if sizes.max() > outcome_id.shape[1]:
        raise ValueError(f"a prompt needs {sizes.max()} answers, but outcome_id holds only {outcome_id.shape[1]}")
    answered = [(outcome_id[p, :n], valid[p, :n]) for p, n in enumerate(sizes)]
    return AnswerMeasures(
        protocol=protocol,
        admissible_size=sizes,
        parse_rate=np.array([parse_rate(ids) for ids, _ in answered]),
        validity=np.array([validity(good) for _, good in answered]),
        uniqueness=np.array([uniqueness(ids) for ids, _ in answered]),
        recovery=np.array([recovery(ids, right) for (ids, _), right in zip(answered, admissible, strict=True)]),
        ceiling=ceiling,
    )


def _answers(answers: np.ndarray) -> np.ndarray:
    answers = np.asarray(answers)
    if answers.ndim != 1 or len(answers) == 0:
        raise ValueError(f"the answers to one prompt must be a non-empty [N] array, not of shape {answers.shape}")
    return answers
