"""Numbers that records give, as data: what is read, how it is combined, and its interval over seeds.

    final("reward", arm="grpo")                                  a value at the end, as a mean over seeds
    final("reward", arm="grpo") - final("reward", arm="rloo")    paired by seed
    share("collapsed", arm="grpo")                               of runs, with its exact binomial interval

Numbers are added, subtracted, multiplied and divided seed by seed. What a seed decides for both curves, such as the
initial policy, leaves their difference, so that its interval is shorter than the two intervals suggest.
"""

import abc
import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipsrl.measures.seeds import Interval, share_of_runs
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.study.tuning import best_for_others

LEVEL = 0.95
"""Coverage of the intervals of numbers."""


@dataclasses.dataclass(frozen=True)
class OfSeeds:
    """A number of each seed.

    Attributes:
      values: `[S]` float64.
      seeds: S of them; None for a number without randomness (S = 1).
    """

    values: np.ndarray
    seeds: tuple[Any, ...] | None

    @classmethod
    def of(cls, values: Any, records: Records) -> "OfSeeds":
        """Values `[S]` of all seeds of some records, in their order; a single number without a seed axis is exact.

        Values that name their seeds stay as they are.
        """
        if isinstance(values, cls):
            return values
        if np.ndim(values) == 0:
            return cls(np.array([values], np.float64), None)
        seeds, values = records.distinct("seed"), np.asarray(values, np.float64)
        if len(values) != len(seeds or [None]):
            raise NotRecorded(f"there are {len(values)} values for {len(seeds)} seeds")
        return cls(values, tuple(seeds) if seeds else None)


class Number(abc.ABC):
    """A number that records give; `number(records)` is its mean over seeds with its interval."""

    @abc.abstractmethod
    def of_seeds(self, records: Records) -> OfSeeds:
        """The number of each seed.

        Raises:
          NotRecorded: the records lack it.
        """

    @abc.abstractmethod
    def within(self, **labels: Any) -> "Number":
        """The same number of the records with these labels."""

    def reach(self) -> tuple[float, float] | None:
        """The least and the most that a seed can give, if that is known."""
        return None

    def __call__(self, records: Records, level: float = LEVEL) -> Interval:
        """The mean over seeds with its interval, by Student's t; a number without seeds is its own interval.

        Where shares are combined and all seeds agree, Student's t says nothing: as many seeds may all have missed what
        happens in a share of the runs, up to the binomial limit, and then the number may be anywhere in its reach.
        """
        found = self.of_seeds(records)
        interval = interval_of(found.values, found.seeds is not None, level)
        reach = self.reach()
        if found.seeds is None or reach is None or np.ptp(found.values) > 0:
            return interval
        unseen = share_of_runs(np.zeros(len(found.values), bool), level).high
        low, high = (interval.mean + unseen * (end - interval.mean) for end in reach)
        return dataclasses.replace(interval, low=low, high=high)

    def __add__(self, other: "Number | float") -> "Number":
        return Combined("+", self, as_number(other))

    def __sub__(self, other: "Number | float") -> "Number":
        return Combined("-", self, as_number(other))

    def __rsub__(self, other: float) -> "Number":
        return Combined("-", as_number(other), self)

    def __mul__(self, other: "Number | float") -> "Number":
        return Combined("*", self, as_number(other))

    def __truediv__(self, other: "Number | float") -> "Number":
        return Combined("/", self, as_number(other))

    __radd__, __rmul__ = __add__, __mul__


@dataclasses.dataclass(frozen=True)
class Final(Number):
    """A value at the end of the curve with these labels; with a label `step`, at that step."""

    value: str
    labels: Mapping[str, Any]

    def of_seeds(self, records: Records) -> OfSeeds:
        ends = records.ends(self.value, **self.labels)
        rows = records.at_end(**self.labels).having(self.value).rows
        return OfSeeds(ends, tuple(row["seed"] for row in rows) if "seed" in rows[0] else None)

    def within(self, **labels: Any) -> "Final":
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def __str__(self) -> str:
        return self.value + _of(self.labels)


@dataclasses.dataclass(frozen=True)
class Share(Number):
    """The share of the runs with these labels in which a value at the end is above a limit, or is not 0.

    Its interval is the exact binomial one of Clopper and Pearson, not that of a mean over seeds: it also bounds a share
    of none or of all.
    """

    value: str
    labels: Mapping[str, Any]
    limit: float | None = None

    def of_seeds(self, records: Records) -> OfSeeds:
        rows = records.where(**self.labels).at_end().having(self.value)
        ends = rows.column(self.value)
        happened = ends != 0 if self.limit is None else ends > self.limit
        return OfSeeds(happened.astype(np.float64), tuple(row.get("seed") for row in rows.rows))

    def within(self, **labels: Any) -> "Share":
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def reach(self) -> tuple[float, float]:
        return 0.0, 1.0

    def __call__(self, records: Records, level: float = LEVEL) -> Interval:
        return share_of_runs(self.of_seeds(records).values > 0, level)

    def __str__(self) -> str:
        event = self.value if self.limit is None else f"{self.value} > {self.limit:g}"
        return f"share of {event}{_of(self.labels)}"


@dataclasses.dataclass(frozen=True)
class Constant(Number):
    """A number that no record changes."""

    value: float

    def of_seeds(self, records: Records) -> OfSeeds:
        return OfSeeds(np.array([self.value], np.float64), None)

    def within(self, **labels: Any) -> "Constant":
        return self

    def reach(self) -> tuple[float, float]:
        return self.value, self.value

    def __str__(self) -> str:
        return f"{self.value:g}"


OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


@dataclasses.dataclass(frozen=True)
class Combined(Number):
    """Two numbers combined seed by seed; `operator` is one of `OPERATORS`."""

    operator: str
    left: Number
    right: Number

    def of_seeds(self, records: Records) -> OfSeeds:
        with np.errstate(divide="ignore", invalid="ignore"):
            left, right = self.left.of_seeds(records), self.right.of_seeds(records)
            if None not in (left.seeds, right.seeds) and left.seeds != right.seeds:
                raise NotRecorded(f"seeds {left.seeds} and {right.seeds} are different: there are no pairs")
            return OfSeeds(OPERATORS[self.operator](left.values, right.values), left.seeds or right.seeds)

    def within(self, **labels: Any) -> "Combined":
        return Combined(self.operator, self.left.within(**labels), self.right.within(**labels))

    def reach(self) -> tuple[float, float] | None:
        left, right = self.left.reach(), self.right.reach()
        if left is None or right is None or self.operator == "/":
            return None
        ends = [OPERATORS[self.operator](one, other) for one in left for other in right]
        return min(ends), max(ends)

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclasses.dataclass(frozen=True)
class Computed(Number):
    """A number that a function reads from records.

    Attributes:
      words: what it is.
      function: records -> `[S]`, one number of each seed in the order of the records; `OfSeeds`, where only some seeds
        have it; or one number without randomness.
      labels: of the records that it is given; all by default.
    """

    words: str
    function: Callable[[Records], Any]
    labels: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def of_seeds(self, records: Records) -> OfSeeds:
        of_these = records.where(**self.labels)
        return OfSeeds.of(self.function(of_these), of_these)

    def within(self, **labels: Any) -> "Computed":
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def __str__(self) -> str:
        return self.words + _of(self.labels)


@dataclasses.dataclass(frozen=True)
class Best(Number):
    """A number of the best curves only, which are chosen for each seed by other seeds.

    Attributes:
      number: of the records of `ipsrl.study.tuning.best_for_others`.
      score, among, judged_at: as there.
    """

    number: Number
    score: str
    among: tuple[str, ...] = ("learning_rate",)
    judged_at: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def of_seeds(self, records: Records) -> OfSeeds:
        return self.number.of_seeds(self._best(records))

    def __call__(self, records: Records, level: float = LEVEL) -> Interval:
        """The interval of the number itself: a share has its own kind."""
        return self.number(self._best(records), level)

    def reach(self) -> tuple[float, float] | None:
        return self.number.reach()

    def _best(self, records: Records) -> Records:
        return best_for_others(records, self.score, self.among, self.judged_at)

    def within(self, **labels: Any) -> "Best":
        return dataclasses.replace(self, number=self.number.within(**labels))

    def __str__(self) -> str:
        return str(self.number)


def as_number(value: Number | float) -> Number:
    """A number as it is, or a constant."""
    return value if isinstance(value, Number) else Constant(float(value))


def final(value: str, **labels: Any) -> Final:
    """A value at the end of the curve with these labels, as a mean over seeds."""
    return Final(value, labels)


def share(value: str, **labels: Any) -> Share:
    """The share of the runs with these labels in which a value at the end is not 0."""
    return Share(value, labels)


def share_above(value: str, limit: float, **labels: Any) -> Share:
    """The share of the runs with these labels in which a value at the end is above a limit."""
    return Share(value, labels, limit)


def difference(value: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Number:
    """A value at the end of the curve with one set of labels less that of another one, paired by seed."""
    return Final(value, one) - Final(value, other)


def _of(labels: Mapping[str, Any]) -> str:
    # A word says by itself what it is, a number does not.
    words = [value if isinstance(value, str) else f"{name} {value}" for name, value in labels.items()]
    return f" of {', '.join(words)}" if labels else ""
