"""An objective at the learning rate that suits it: without that, a comparison of objectives is one of step sizes.

Each half of the seeds chooses for the other one: the best rate for the same seeds would be the luckiest one too, and
more so for an arm that has more rates to choose from.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ipsrl.records.tidy import NotRecorded, Record, Records, TooFewSeeds


def best_for_others(
    records: Records,
    score: str,
    among: tuple[str, ...] = ("learning_rate",),
    judged_at: Mapping[str, Any] = MappingProxyType({}),
) -> Records:
    """Only the best curves: each half of the seeds has the one that ends with the highest mean for the other half.

    Halves are every other seed. A choice for each seed by all others would leave the seeds of a result dependent on
    each other, and its intervals too short where curves are about equally good. Without seeds there is no luck to be
    kept out of a choice: the best curve is the best. Curves that have none of the labels `among` stay as they are. A
    curve that ends with no finite number for one of the other seeds is worse than all that do.

    Args:
      records: of curves with the same seeds.
      score: name of the value that is highest at the best.
      among: the labels that are chosen, for each combination of the others. In the result they are values, as they may
        differ between seeds.
      judged_at: labels of other curves by whose score the choice is made, as far as they differ; curves for which there
        are no such others are left out.

    Raises:
      NotRecorded: there is no curve with this value.
      TooFewSeeds: there is only one seed.
    """
    return _best(records, score, among, tuple(judged_at.items()))


# All claims and numbers of a study ask for the best curves of the same records.
@functools.lru_cache(maxsize=8)
def _best(records: Records, score: str, among: tuple[str, ...], judged_at: tuple[tuple[str, Any], ...]) -> Records:
    others = tuple(name for name in records.labels if name not in among)
    rows = [row for row in records.rows if not any(name in row for name in among)]
    each = records.having(score, *among).each(*others)
    of_labels = {frozenset(labels.items()): curves for labels, curves in each}
    for labels, curves in of_labels.items():
        labels_of_judges = dict(labels) | dict(judged_at)
        judges = of_labels.get(frozenset(labels_of_judges.items()))
        if judges:
            rows += _best_rows(curves, judges, score, among)
    if not rows:
        raise NotRecorded(f"there is no record of {score} to choose {' and '.join(among)} by")
    return dataclasses.replace(records, rows=rows, labels=others)


def of_best(view: Callable[..., Any], score: str, **choice: Any) -> Callable[..., Any]:
    """A number, a claim, a table or a figure, each a function of records and perhaps of settings, of the best curves.

    The score and the choice are arguments of `best_for_others`.
    """
    return lambda records, *settings: view(best_for_others(records, score, **choice), *settings)


def _best_rows(curves: Records, judges: Records, score: str, among: tuple[str, ...]) -> list[Record]:
    choices, of_choices = zip(*judges.each(*among), strict=True)
    ends = np.array([judged.ends(score) for judged in of_choices])
    ends = np.where(np.isfinite(ends), ends, -np.inf)

    seeds = judges.distinct("seed")
    if not seeds:
        best = choices[ends[:, 0].argmax()]
        return list(curves.where(**best).rows)
    if len(seeds) < 2:
        raise TooFewSeeds("to choose by other seeds takes two or more")

    rows_of_halves = []
    for half in (0, 1):
        for_others = ends[:, 1 - half :: 2].mean(axis=1)
        best = choices[for_others.argmax()]
        of_seeds = curves.where(**best).each("seed")
        rows_of_halves.append({labels["seed"]: of_seed.rows for labels, of_seed in of_seeds})
    chosen = []
    for number, seed in enumerate(seeds):
        chosen += rows_of_halves[number % 2].get(seed, ())
    return chosen
