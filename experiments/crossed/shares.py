"""Objectives crossed with priors, or with anything else that labels name: differences and shares of variance."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.crossed.variance_shares import variance_shares
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.records.tidy import NotRecorded, Records, TooFewSeeds

SOURCES = {"prior": "first", "objective": "second", "both": "both", "seeds": "seeds"}
LEAD = "lead"


def cells(records: Records, value: str, objectives: Sequence[str] = ()) -> np.ndarray:
    """`[S, N, M]`, final values by seed, combination of the other labels, and objective (all of them by default).

    Raises:
      NotRecorded: an objective lacks one of the combinations, or there is none.
    """
    rows = records.at_end().having(value)
    others = [name for name in rows.labels if name != "objective" and rows.distinct(name)]
    objectives, combinations = (
        objectives or rows.distinct("objective"),
        [labels for labels, _ in rows.each(*others)],
    )
    if not combinations or not others:
        raise NotRecorded(
            f"there is no record of {value} of objectives that are crossed with another label"
        )
    found = [
        [rows.ends(value, objective=name, **labels) for name in objectives]
        for labels in combinations
    ]
    return np.moveaxis(np.array(found), -1, 0)


def share(
    value: str, source: str, objectives: Sequence[str] = (), **where: Any
) -> Callable[[Records], Interval]:
    """For NUMBERS: the share of the variance of a final value that a source explains, one of `SOURCES` or `LEAD`.

    Args:
      value: its name.
      source: `prior`, all labels but the objective; `objective`; `both`, their interaction; `seeds`; or
        `lead`, by how much the prior's share is above the objective's.
      objectives: among which; all by default.
      where: labels that the records must have.
    """

    def measure(records: Records) -> Interval:
        found = cells(records.where(**where), value, objectives)
        if len(found) < 2:
            raise TooFewSeeds("a share of variance needs two or more seeds")
        return getattr(variance_shares(found), SOURCES.get(source, source))

    return measure


def gain(value: str, objective: str, other: str, **where: Any) -> Callable[[Records], Interval]:
    """For NUMBERS: by how much the final value of one objective is above another's, paired by seed and other labels."""

    def measure(records: Records) -> Interval:
        found = cells(records.where(**where), value, (objective, other)).mean(axis=1)
        return mean_over_seeds(found[:, 0] - found[:, 1])

    return measure
