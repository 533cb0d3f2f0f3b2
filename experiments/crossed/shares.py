"""Objectives crossed with priors, or with anything else that labels name: means and shares of variance."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.crossed.variance_shares import variance_shares
from ipsrl.records.tidy import NotRecorded, Records, TooFewSeeds
from ipsrl.study.numbers import Computed

SOURCES = ("prior", "objective", "both", "seeds")


def cells(records: Records, value: str, objectives: Sequence[str] = ()) -> np.ndarray:
    """`[S, N, M]`, final values by seed, combination of the other labels, and objective (all of them by default).

    Raises:
      NotRecorded: an objective lacks one of the combinations, or there is none.
    """
    rows = records.at_end().having(value)
    others = [name for name in rows.labels if name != "objective" and rows.distinct(name)]
    if not others:
        raise NotRecorded(f"there is no record of {value} of objectives that are crossed")
    found = [
        [
            rows.ends(value, objective=name, **labels)
            for name in objectives or rows.distinct("objective")
        ]
        for labels, _ in rows.each(*others)
    ]
    return np.moveaxis(np.array(found), -1, 0)


def share(value: str, source: str, objectives: Sequence[str] = (), **where: Any) -> Computed:
    """The share of the variance of a final value that a source explains, one of `SOURCES`.

    Args:
      value: its name.
      source: `prior`, all labels but the objective; `objective`; `both`, their interaction; or `seeds`.
      objectives: among which; all by default.
      where: labels that the records must have.
    """

    def measure(records: Records) -> np.ndarray:
        found = cells(records, value, objectives)
        if len(found) < 2:
            raise TooFewSeeds("a share of variance needs two or more seeds")
        return variance_shares(found)[SOURCES.index(source)]

    return Computed(f"share of {value} by {source}", measure, where)


def mean(value: str, objective: str, **where: Any) -> Computed:
    """The final value of an objective, as a mean over all other labels."""

    def measure(records: Records) -> np.ndarray:
        return cells(records, value, [objective]).mean(axis=(1, 2))

    return Computed(f"{value} of {objective}", measure, where)
