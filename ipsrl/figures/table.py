"""The numbers of a figure as a table: one row for each point of each series, which lies beside the figure as CSV.

Whatever is drawn, a row says where a point lies and what it belongs to, and then `value`; where that is a mean over
runs, `low_95`, `high_95` and `seeds` are its 95 % bootstrap interval and the number of runs.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl.measures.seeds import Interval
from ipsrl.records.json_files import plain, replace_file

Row = dict[str, Any]


def point(interval: Interval) -> Row:
    """The columns of one mean over seeds, or, of an interval of arrays, of as many."""
    return {"value": interval.mean, "low_95": interval.low, "high_95": interval.high, "seeds": interval.seeds}


def curve(series: Row, values: Interval | Sequence[float], **places: Sequence[Any] | np.ndarray) -> list[Row]:
    """A row for each of n points.

    Args:
      series: columns that all rows share: what they belong to.
      values: n numbers, or an interval of arrays `[n]`.
      places: column -> its n values, which say where the points lie.
    """
    columns = point(values) if isinstance(values, Interval) else {"value": values}
    seeds = {"seeds": columns.pop("seeds")} if "seeds" in columns else {}
    columns = places | columns
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [series | row | seeds for row in rows]


def write(path: Path, rows: Sequence[Row]) -> None:
    """Writes rows to a file, see `as_csv`; raises ValueError also if there is no row."""
    if not rows:
        raise ValueError(f"there are no numbers to write to {path}")
    replace_file(path, as_csv(rows))


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV: numbers in full, a cell blank where a row lacks the column or its number is not finite.

    Columns are those of all rows in the order in which they first appear. The same rows give the same text.

    Raises:
      ValueError: a value is neither a number nor text.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain(list(rows)))
    return text.getvalue()
