"""Tidy records: one dict for each point, with its labels, its step and its measured values.

    {"step": 100, "objective": "grpo", "seed": 3, "share": 0.71}

Here `objective` is a label; `step` and `seed` have these names in every study; the rest is measured. A study's table,
claims and figure use the same queries: the value at the end, its mean over seeds with an interval, its course over
training.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from ipsrl.measures.seeds import Interval, mean_over_seeds

Record = dict[str, Any]

EXACT = 0
"""`Interval.seeds` of a number without seeds; its interval is the number itself."""


class NotRecorded(LookupError):
    """The requested record does not exist; the message says what is missing."""


class TooFewSeeds(LookupError):
    """An interval was requested, but there is only one seed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Records:
    """Records, and queries on them; equal only to themselves.

    A query raises NotRecorded where no record has what it asks for, and ValueError where its labels match several
    curves or its seeds were measured at different points.

    Attributes:
      rows: in the order of writing: by curve, seed and step.
      labels: names of the labels, without `seed`.
      arrays: pairs of a curve's labels and its arrays, for figures.
    """

    rows: Sequence[Record]
    labels: tuple[str, ...]
    arrays: Sequence[tuple[Mapping[str, Any], Mapping[str, np.ndarray]]] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **labels: Any) -> Self:
        """The records with these values; may be empty."""

        def has_them(row: Record) -> bool:
            return all(row.get(name) == value for name, value in labels.items())

        return dataclasses.replace(self, rows=[row for row in self.rows if has_them(row)])

    def having(self, *names: str) -> Self:
        """The records that have all of these values."""
        kept = [row for row in self.rows if all(name in row for name in names)]
        return dataclasses.replace(self, rows=kept)

    def each(self, *names: str) -> Iterator[tuple[dict[str, Any], Self]]:
        """The labels and the records of each group by some labels (by default all), in order of first appearance."""
        names = names or self.labels
        groups: dict[tuple, list[Record]] = {}
        for row in self.rows:
            key = tuple((name, row[name]) for name in names if name in row)
            groups.setdefault(key, []).append(row)
        for key, rows in groups.items():
            yield dict(key), dataclasses.replace(self, rows=rows)

    def distinct(self, name: str) -> list[Any]:
        """The distinct values of one label, in order of first appearance."""
        return list(dict.fromkeys(row[name] for row in self.rows if name in row))

    @property
    def measured(self) -> list[str]:
        """Names of the values, in order of first appearance."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return [name for name in names if name not in (*self.labels, "step", "seed")]

    def column(self, name: str) -> np.ndarray:
        """`[N]`, one value of all records that have it."""
        values = [row[name] for row in self.rows if name in row]
        if not values:
            raise NotRecorded(f"there is no record of {name}")
        return np.array(values)

    def array(self, name: str, **labels: Any) -> np.ndarray:
        """An array of the first curve that has these labels and an array with this name."""
        for of_curve, arrays in self.arrays:
            if labels.items() <= of_curve.items() and name in arrays:
                return arrays[name]
        raise NotRecorded(f"there is no array {name} of {labels}")

    def at_end(self, **labels: Any) -> Self:
        """The last record of each curve, for each seed."""
        names = (*self.labels, "seed")
        last = {tuple(row.get(name) for name in names): row for row in self.where(**labels).rows}
        return dataclasses.replace(self, rows=list(last.values()))

    def ends(self, name: str, **labels: Any) -> np.ndarray:
        """`[S]`, a value at the end, one for each seed."""
        rows = self.at_end(**labels).having(name)
        if rows:
            return rows._of_one_curve(name, labels).column(name).astype(np.float64)
        missing = f"there is no record of {name}"
        if not self:
            raise NotRecorded(missing)
        if name in self.measured:
            raise NotRecorded(f"{missing} with {labels}")
        raise NotRecorded(f"{missing}; recorded are {', '.join(self.measured)}")

    def final(self, name: str, **labels: Any) -> Interval:
        """A value at the end: its mean over seeds with a 95 % interval.

        If one of the values is not finite, neither is the mean, and there is no interval.
        """
        rows = self.at_end(**labels).having(name)
        seeded = any("seed" in row for row in rows.rows)
        return interval_of(rows.ends(name, **labels), seeded)

    def mean(self, name: str, **labels: Any) -> float:
        """The mean of `final`."""
        return float(self.final(name, **labels).mean)

    def curve(self, name: str, along: str = "step", **labels: Any) -> tuple[np.ndarray, np.ndarray]:
        """The points `along` which a value of one curve was measured, `[U]`, and the values `[S, U]`, a row a seed."""
        rows = self.where(**labels).having(name, along)._of_one_curve(name, labels, along)
        places, values = {}, {}
        for row in rows.rows:
            seed = row.get("seed")
            places.setdefault(seed, []).append(row[along])
            values.setdefault(seed, []).append(row[name])
        if not rows:
            raise NotRecorded(f"there is no record of {name} with {labels}")
        first, *others = places.values()
        if any(other != first for other in others):
            raise ValueError(f"the seeds of {labels} were measured at different values of {along}")
        return np.array(first), np.array(list(values.values()), np.float64)

    def _of_one_curve(self, name: str, labels: Mapping[str, Any], along: str = "") -> Self:
        """The records themselves; raises ValueError unless labels, and a value of `along`, say of which curve."""
        for label in self.labels:
            if label in labels or label == along:
                continue
            if len({row.get(label) for row in self.rows}) > 1:
                raise ValueError(f"{name} with {dict(labels)} is recorded for several {label}: name one of them")
        return self


def interval_of(values: np.ndarray, seeded: bool = True, level: float = 0.95) -> Interval:
    """The mean of `[S, ...]` over seeds with its interval; a number without a seed is its own interval."""
    values = np.asarray(values, np.float64)
    if len(values) == 0:
        raise NotRecorded("there is no record of this")
    if not seeded:
        value = values[0] if values.ndim > 1 else float(values[0])
        return Interval(value, value, value, EXACT)
    if not np.isfinite(values).all():
        mean = values.mean(axis=0)
        nothing = np.full_like(mean, np.nan)
        return Interval(mean, nothing, nothing, len(values))
    return mean_over_seeds(values, level)
