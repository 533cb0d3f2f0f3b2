"""The results of a study as text."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipsrl.measures.seeds import Interval
from ipsrl.records.text_table import aligned
from ipsrl.records.tidy import Records
from ipsrl.study.claims import digits
from ipsrl.study.settings import Settings, identity


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
        return "\n\n".join(self._table(part, words | labels) for labels, part in chosen.each(self.each))

    def _table(self, chosen: Records, words: Mapping[str, Any]) -> str:
        chosen = chosen.having(*self.rows) if self.rows else chosen
        fixed = (*self.where, self.each)
        names = self.rows or [name for name in chosen.labels if name not in fixed and chosen.distinct(name)]
        columns = [name for name in self.columns or chosen.measured if name in chosen.measured]
        headings = self.columns if isinstance(self.columns, Mapping) else {}
        table = [[headings.get(name, name.replace("_", " ")) for name in (*names, *columns)]]
        for labels, rows in chosen.each(*names):
            row = [_of_label(labels[name]) if name in labels else "" for name in names]
            table.append([*row, *(cell(rows, name, self.decimals) for name in columns)])
        title = [self.title.format_map(words)] if self.title else []
        return "\n".join([*title, aligned(table)])


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
        names = [name for name in chosen.labels if name not in (*self.where, self.across) and chosen.distinct(name)]
        table = [[*names, *(f"{self.across} = {_of_label(column)}" for column in columns)]]
        for labels, rows in chosen.each(*names):
            row = [_of_label(labels.get(name, "")) for name in names]
            table.append([*row, *(cell(rows.where(**{self.across: column}), self.value) for column in columns)])
        return "\n".join(
            [*([self.title.format_map(vars(settings) | identity(settings))] * bool(self.title)), aligned(table)]
        )


def one_below_the_other(*tables: Callable[[Records, Settings], str]) -> Callable[[Records, Settings], str]:
    """For TABLE: several tables."""
    return lambda records, settings: "\n\n".join(table(records, settings) for table in tables)


def cell(records: Records, name: str, decimals: int | None = None) -> str:
    """The final value with three digits or the given decimals; empty if there is none."""
    ends = records.at_end().having(name)
    if ends and not np.issubdtype(ends.column(name).dtype, np.number):
        return "; ".join(sorted(set(map(str, ends.column(name)))))
    return with_interval(ends.final(name), decimals) if ends else ""


def with_interval(interval: Interval, decimals: int | None = None) -> str:
    """A mean and its interval, if it has one, with three digits or the given decimals."""
    ends = (interval.mean, interval.low, interval.high)
    mean, low, high = map(digits, ends) if decimals is None else (f"{end:.{decimals}f}" for end in ends)
    if interval.low == interval.high or (math.isnan(interval.low) and interval.seeds > 1):
        return mean
    return f"{mean} (1 seed)" if interval.seeds == 1 else f"{mean} [{low}, {high}]"


def _of_label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
