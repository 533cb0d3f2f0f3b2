"""The results of a study as text."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records
from ipsrl.study.claims import digits
from ipsrl.study.settings import Settings, identity
from ipsrl.text_table import aligned


@dataclasses.dataclass(frozen=True)
class Table:
    """A row for each curve with its final values: means over seeds with 95 % intervals.

    Attributes:
      columns: name of a value -> heading, or only names; all values by default.
      title: the line above the table; `{name}` is replaced by a setting, or by the label `each`.
      where: labels that the curves must have.
      rows: the labels that name a row; all by default.
      each: a label; each of its values gets a table.
      decimals: number of decimals; by default numbers have three digits.
    """

    columns: Mapping[str, str] | Sequence[str] = ()
    title: str = ""
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: Sequence[str] = ()
    each: str = ""
    decimals: int | None = None

    def __call__(self, records: Records, settings: Settings) -> str:
        chosen = records.where(**self.where)
        words = vars(settings) | identity(settings)
        if not self.each:
            return self._table(chosen, words)
        tables = [self._table(part, words | labels) for labels, part in chosen.each(self.each)]
        return "\n\n".join(tables)

    def _table(self, chosen: Records, words: Mapping[str, Any]) -> str:
        if self.rows:
            chosen = chosen.having(*self.rows)
        names = self.rows or _labels_but(chosen, *self.where, self.each)
        measured = chosen.measured
        columns = [name for name in self.columns or measured if name in measured]
        headings = self.columns if isinstance(self.columns, Mapping) else {}
        table = [[headings.get(name, name.replace("_", " ")) for name in (*names, *columns)]]
        for labels, rows in chosen.each(*names):
            cells = [cell(rows, name, self.decimals) for name in columns]
            table.append([*_of_labels(labels, names), *cells])
        return _titled(self.title, words, table)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The final values of one measure: a row for each curve without one of its labels, a column for each of its values.

    Attributes:
      value: the measure.
      across: the label whose values are the columns.
      where: labels that the curves must have.
      title: the line above; `{name}` is replaced by a setting.
    """

    value: str
    across: str
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    title: str = ""

    def __call__(self, records: Records, settings: Settings) -> str:
        chosen = records.where(**self.where).having(self.value, self.across)
        columns = chosen.distinct(self.across)
        names = _labels_but(chosen, *self.where, self.across)
        headings = [f"{self.across} = {_of_label(column)}" for column in columns]
        table = [[*names, *headings]]
        for labels, rows in chosen.each(*names):
            cells = [cell(rows.where(**{self.across: column}), self.value) for column in columns]
            table.append([*_of_labels(labels, names), *cells])
        return _titled(self.title, vars(settings) | identity(settings), table)


def one_below_the_other(*tables: Callable[[Records, Settings], str]) -> Callable[[Records, Settings], str]:
    """Several tables as one, for TABLE."""
    return lambda records, settings: "\n\n".join(table(records, settings) for table in tables)


def cell(records: Records, name: str, decimals: int | None = None) -> str:
    """The final value with three digits or the given decimals; empty if there is none."""
    ends = records.at_end().having(name)
    if not ends:
        return ""
    values = ends.column(name)
    if np.issubdtype(values.dtype, np.number):
        return with_interval(ends.final(name), decimals)
    words = {str(value) for value in values}
    return "; ".join(sorted(words))


def with_interval(interval: Interval, decimals: int | None = None) -> str:
    """A mean and its interval, if it has one, with three digits or the given decimals."""

    def written(number: float) -> str:
        return digits(number) if decimals is None else f"{number:.{decimals}f}"

    mean = written(interval.mean)
    not_finite = math.isnan(interval.low) and interval.seeds > 1
    if interval.low == interval.high or not_finite:
        return mean
    if interval.seeds == 1:
        return f"{mean} (1 seed)"
    return f"{mean} [{written(interval.low)}, {written(interval.high)}]"


def _titled(title: str, words: Mapping[str, Any], table: Sequence[Sequence[str]]) -> str:
    """A table below its title, with `words` filled in, if it has one."""
    if not title:
        return aligned(table)
    return f"{title.format_map(words)}\n{aligned(table)}"


def _labels_but(records: Records, *names: str) -> list[str]:
    """The labels that records have, without some."""
    return [name for name in records.labels if name not in names and records.distinct(name)]


def _of_labels(labels: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The first cells of a row; empty where its curve has no such label."""
    return [_of_label(labels.get(name, "")) for name in names]


def _of_label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
