"""How much of several right outcomes training keeps, and how fast it loses them: sampled, and in expectation."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from ipsrl.dynamics.cases import CASES, STARTS
from ipsrl.dynamics.expected_training import case_of, expected_training
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.verdict import word_for
from ipsrl.measures.diversity import effective_outcomes_of_distribution
from ipsrl.objectives.objective import Objective
from ipsrl.records.tidy import Records
from ipsrl.study.claims import Claim, above, all_of
from ipsrl.study.curves import Points
from ipsrl.study.numbers import difference

BAR = 0.9
"""The probability of right outcomes at which runs of different speed are compared."""
MORE, LATER = 0.1, 1.1
"""Differences of right outcomes, and ratios of half-times, that are no larger do not count."""


def measures(probs: np.ndarray, rewards: Sequence[float], every: int) -> dict[str, np.ndarray]:
    """From distributions `[S, U, K]`, `every` batches apart, each `[S, 1]`.

    reward: probability of the right outcomes at the end.
    effective: exp(H) of their shares at the end.
    at_bar: exp(H) when that probability first reaches `BAR`, NaN in runs that never do.
    half_time: batches until half of what was above one effective right outcome is gone, or all batches.
    """
    kept = probs[..., np.array(rewards) > 0]
    reward = kept.sum(axis=-1)
    effective = np.asarray(effective_outcomes_of_distribution(kept / reward[..., None]), np.float64)
    at_bar = np.where(reward >= BAR, effective, np.nan)[
        np.arange(len(probs)), (reward >= BAR).argmax(axis=1)
    ]
    gone = effective - 1 <= (effective[:, :1] - 1) / 2
    half_time = np.where(gone.any(axis=1), gone.argmax(axis=1), probs.shape[1] - 1) * every
    found = {
        "effective": effective[:, -1],
        "reward": reward[:, -1],
        "at_bar": at_bar,
        "half_time": half_time,
    }
    return {name: values[:, None] for name, values in found.items()}


def exact(objective: Objective, each: Steps, settings: Any) -> Points:
    """Expected training on rewards 1, 1, 0 with these steps on each batch.

    The settings have `EnsembleSettings`' steps, record_every and group_size.

    Returns:
      `measures` of the flow from the first of `STARTS`, and the word for the ends of the flows from all.
    """
    field = Field(objective, CASES["binary"], settings.group_size, steps=each)
    path = expected_training(
        objective, field.rewards, STARTS, settings.group_size, each, settings.steps
    )
    cases = dict.fromkeys(CASES, case_of(field, path))
    every = settings.record_every
    found = measures(softmax(path[None, ::every, 0], axis=-1), field.rewards, every)
    return Points([settings.steps], found | {"word": word_for(cases, cases)})


def keeps_more(value: str, name: str, rival: str, k: int) -> Claim:
    """Whether an objective has over `MORE` more of a sampled value than its rival at k steps, paired by seed."""
    ours, theirs = (
        {"side": "sampled", "k": k, "objective": objective} for objective in (name, rival)
    )
    return above(difference(value, ours, theirs), MORE)


def delays(name: str, steps: Sequence[int]) -> Claim:
    """Whether exact half-times are over `LATER` times those of GRPO at each of these steps on a batch.

    Undecided where GRPO's does not lie within training.
    """

    def at(k: int, records: Records) -> bool | None:
        ours, rows = (
            records.where(side="exact", objective=objective, k=k) for objective in (name, "grpo")
        )
        half_time = rows.mean("half_time")
        return (
            None
            if half_time >= rows.column("step").max()
            else ours.mean("half_time") > LATER * half_time
        )

    return lambda records: all_of(at(k, records) for k in steps)


def ends_as(names: Iterable[str], *words: str) -> Claim:
    """Whether exact training of these objectives ends at these words, by default GRPO's, over all k.

    The word `other` decides nothing: it is also that of training that has not ended.
    """

    def of(name: str, records: Records) -> set[str]:
        return set(records.where(side="exact", objective=name).column("word").tolist())

    def holds(records: Records) -> bool | None:
        expected, found = (
            set(words) or of("grpo", records),
            set().union(*(of(name, records) for name in names)),
        )
        if found - expected - {"other"}:
            return False if "other" not in expected else None
        return None if "other" in found else True

    return holds
