"""How much of several right outcomes training keeps, and how fast it loses them: sampled, and in expectation."""

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax, softmax

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.cases import CASES, STARTS, Case
from ipsrl.dynamics.expected_training import expected_training
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.verdict import word_for
from ipsrl.measures.diversity import effective_outcomes_of_distribution
from ipsrl.objectives.objective import Objective
from ipsrl.records.tidy import Records
from ipsrl.study.curves import Points
from ipsrl.study.numbers import Computed
from ipsrl.study.settings import EnsembleSettings

BAR = 0.9
"""The probability of right outcomes at which runs of different speed are compared."""
MORE, LATER = 0.1, 1.1
"""Differences of right outcomes, and ratios of half-times, that are no larger do not count."""


def measures(probs: np.ndarray, rewards: Sequence[float], every: int) -> dict[str, np.ndarray]:
    """Measures distributions `[S, U, K]` that are `every` batches apart; each value is `[S, 1]`.

    reward: probability of the right outcomes at the end.
    effective: exp(H) of their shares at the end.
    at_bar: exp(H) when that probability first reaches `BAR`, NaN in runs that never do.
    half_time: batches until half of what was above one effective right outcome is gone, or all batches.
    """
    kept = probs[..., np.array(rewards) > 0]
    reward = kept.sum(axis=-1)
    shares = kept / reward[..., None]
    effective = np.asarray(effective_outcomes_of_distribution(shares), np.float64)
    solved = reward >= BAR
    when_solved = np.take_along_axis(effective, first(solved), axis=1)
    at_bar = np.where(solved.any(axis=1, keepdims=True), when_solved, np.nan)
    gone = effective - 1 <= (effective[:, :1] - 1) / 2
    gone[:, -1] = True
    return {
        "effective": effective[:, -1:],
        "reward": reward[:, -1:],
        "at_bar": at_bar,
        "half_time": first(gone) * every,
    }


def first(happens: np.ndarray) -> np.ndarray:
    """`[S, 1]`, the first place of each row at which something happens; 0 if it never does."""
    return happens.argmax(axis=1)[:, None]


def exact(objective: Objective, each: Steps, settings: EnsembleSettings) -> Points:
    """Expected training on rewards 1, 1, 0 with these steps on each batch.

    Returns:
      `measures` of the flow from the first of `STARTS`, and the word for the ends of the flows from all.
    """
    size, steps, every = settings.group_size, settings.steps, settings.record_every
    field = Field(objective, CASES["binary"], size, steps=each)
    path = expected_training(objective, field.rewards, STARTS, size, each, steps)
    cases = dict.fromkeys(CASES, case_of(field, path))
    probs = softmax(path[None, ::every, 0], axis=-1)
    values = measures(probs, field.rewards, every)
    return Points([steps], values | {"word": word_for(cases, cases)})


def delay(name: str) -> Computed:
    """An exact half-time over GRPO's; NaN where training is too short for one that is `LATER` times as long."""

    def ratio(records: Records) -> float:
        theirs = records.mean("half_time", objective="grpo")
        if LATER * theirs >= records.column("step").max():
            return np.nan
        return records.mean("half_time", objective=name) / theirs

    return Computed(f"half-time of {name} over GRPO's", ratio, {"side": "exact"})


def elsewhere(name: str, word: str = "") -> Computed:
    """1 if exact training ends at another word than this one, by default GRPO's, else 0.

    NaN where one of them is `other`, which is also the word of training that has not ended.
    """

    def differs(records: Records) -> float:
        found = records.where(objective=name).column("word")[0]
        expected = word or records.where(objective="grpo").column("word")[0]
        return np.nan if "other" in (found, expected) else found != expected

    of = word or "that of GRPO"
    return Computed(f"whether {name} ends at another word than {of}", differs, {"side": "exact"})


@checked
def case_of(field: Field, path: np.ndarray) -> Case:
    """The ends of training on the field's rewards from `STARTS`, `[U + 1, 12, K]`, and how fast outcomes are lost.

    As in `ipsrl.dynamics.field.train`: means over the last quarter, compared with those at half that time.
    """
    parts = np.array_split(path[1:], 8)
    eighths = [part.mean(axis=0) for part in parts]
    last = (eighths[6] + eighths[7]) / 2
    half, end = log_softmax([eighths[3], last], axis=-1)
    exponents = (end - half) / np.log(2)
    return Case(field, np.exp(end), exponents)
