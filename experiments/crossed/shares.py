"""Objectives crossed with priors, or with anything else that labels name: means and shares of variance."""

from collections.abc import Sequence
from typing import Any

import numpy as np

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


def variance_shares(values: np.ndarray) -> np.ndarray:
    """Shares of the variance of `values` over seeds and two crossed choices (eta^2 of a two-way analysis of variance).

        first = var_a(mean over s, b) / var,   second = var_b(mean over s, a) / var,
        both = var_ab(mean over s) / var - first - second,   seeds = 1 - var_ab(mean over s) / var

    Args:
      values: `[S, A, B]`, one for each seed, two or more, first and second choice.

    Returns:
      `[4, S]`, of the first choice, of the second, of both (what the means of cells have beyond the sum of the two, the
      interaction) and of seeds (within cells). A number of each seed: the share, plus S - 1 times what leaving out that
      seed, the same in all cells, takes from it, less the mean of that. So their mean is the share, with the
      jackknife's standard error. A bootstrap repeats seeds: its cells vary less within, and its intervals can miss the
      share.
    """
    seeds = range(len(values))
    left_out = [_shares(np.delete(values, seed, axis=0)) for seed in seeds]
    taken = np.mean(left_out, axis=0) - left_out
    of_seeds = _shares(values) + (len(values) - 1) * taken
    return of_seeds.T


def _shares(values: np.ndarray) -> np.ndarray:
    cells = values.mean(axis=0)
    first = cells.mean(axis=1).var()
    second = cells.mean(axis=0).var()
    both = cells.var() - first - second
    seeds = values.var() - cells.var()
    return np.array([first, second, both, seeds]) / values.var()
