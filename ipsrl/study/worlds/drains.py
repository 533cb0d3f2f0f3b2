"""How much of several right outcomes training keeps, and how fast it loses them: sampled, and in expectation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from ipsrl.dynamics.expected_training import case_of, expected_training
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.rest_points import Field
from ipsrl.dynamics.verdict import CASES, STARTS, word_for
from ipsrl.measures.diversity import effective_outcomes_of_distribution
from ipsrl.objectives.objective import Objective
from ipsrl.study.curves import Points

BAR = 0.9
"""The probability of right outcomes at which runs of different speed are compared."""


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
    at_bar = np.where(reward >= BAR, effective, np.nan)[np.arange(len(probs)), (reward >= BAR).argmax(axis=1)]
    gone = effective - 1 <= (effective[:, :1] - 1) / 2
    half_time = np.where(gone.any(axis=1), gone.argmax(axis=1), probs.shape[1] - 1) * every
    found = {"effective": effective[:, -1], "reward": reward[:, -1], "at_bar": at_bar, "half_time": half_time}
    return {name: values[:, None] for name, values in found.items()}


def exact(objective: Objective, each: Steps, settings: Any) -> Points:
    """Expected training on rewards 1, 1, 0 with these steps on each batch.

    The settings have `EnsembleSettings`' steps, record_every and group_size.

    Returns:
      `measures` of the flow from the first of `STARTS`, and the word for the ends of the flows from all.
    """
    field = Field(objective, CASES["binary"], settings.group_size, steps=each)
    path = expected_training(objective, field.rewards, STARTS, settings.group_size, each, settings.steps)
    cases = dict.fromkeys(CASES, case_of(field, path))
    every = settings.record_every
    found = measures(softmax(path[None, ::every, 0], axis=-1), field.rewards, every)
    return Points([settings.steps], found | {"word": word_for(cases, cases)})
