"""An objective at the learning rate that suits it: without that, a comparison of objectives is one of step sizes.

All functions choose by other seeds than those that are reported: the best rate for the same seeds would be the
luckiest one too, and more so for an arm that has more rates to choose from.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipsrl.records.tidy import NotRecorded, Record, Records, TooFewSeeds


def other_seeds(seeds: Sequence[int], number: int) -> list[int]:
    """The smallest `number` of seeds that are none of these."""
    return list(itertools.islice((seed for seed in itertools.count() if seed not in seeds), number))


def best_for_others(records: Records, score: str, among: tuple[str, ...] = ("learning_rate",)) -> Records:
    """Only the best curves: each half of the seeds has the one that ends with the highest mean for the other half.

    Halves are every other seed. A choice for each seed by all others would leave the seeds of a result dependent on
    each other, and its intervals too short where curves are about equally good. Without seeds there is no luck to be
    kept out of a choice: the best curve is the best. Curves that have none of the labels `among` stay as they are.

    Args:
      records: of curves with the same seeds.
      score: name of the value that is highest at the best.
      among: the labels that are chosen, for each combination of the others. In the result they are values, as they may
        differ between seeds.

    Raises:
      NotRecorded: there is no curve with this value.
      TooFewSeeds: there is only one seed.
    """
    others = tuple(name for name in records.labels if name not in among)
    rows = [row for row in records.rows if not any(name in row for name in among)]
    for _, alike in records.having(score, *among).each(*others):
        rows += _best_rows(alike, score)
    if not rows:
        raise NotRecorded(f"there is no record of {score} to choose {' and '.join(among)} by")
    return dataclasses.replace(records, rows=rows, labels=others)


def of_best(view: Callable[..., Any], score: str) -> Callable[..., Any]:
    """A number, a claim, a table or a figure of the curves of `best_for_others`.

    Args:
      view: a function of records, and perhaps of settings.
      score: as there.
    """
    return lambda records, *settings: view(best_for_others(records, score), *settings)


def _best_rows(records: Records, score: str) -> list[Record]:
    curves = [rows for _, rows in records.each()]
    ends, seeds = np.array([rows.ends(score) for rows in curves]), curves[0].distinct("seed")
    if not seeds:
        return list(curves[ends[:, 0].argmax()].rows)
    if len(seeds) < 2:
        raise TooFewSeeds("to choose by other seeds takes two or more")
    best = [curves[ends[:, 1 - half :: 2].mean(axis=1).argmax()] for half in (0, 1)]
    return [row for number, seed in enumerate(seeds) for row in best[number % 2].where(seed=seed).rows]
