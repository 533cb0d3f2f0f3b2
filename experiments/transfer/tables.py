"""The tables of a transfer between levels of training, as aligned text or as Markdown."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from experiments.transfer.levels import WHEN, When, correlation, outcomes
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.study.pages.tables import with_interval


def tables(records: Records, row: Callable[[Sequence[Sequence[str]]], str]) -> str:
    """Correlations of all pairs of levels, and effective outcomes of all objectives; `row` writes a table."""
    levels = records.distinct("level")
    head = ["first", "second"]
    for when in WHEN:
        head += [when, f"{when}, one left out", f"{when}, objectives"]
    pairs = [head]
    for first, second in itertools.combinations(levels, 2):
        cells = [first, second]
        for when in WHEN:
            cells += correlated(records, first, second, when)
        pairs.append(cells)
    parts = [row(pairs)]
    for when in WHEN:
        found = {level: outcomes(records.where(level=level), when) for level in levels}
        lines = [(f"effective outcomes {when}", *levels)]
        for name in records.distinct("objective"):
            kept = (found[level].get(name) for level in levels)
            lines.append((name, *("" if values is None else shown(values) for values in kept)))
        parts.append(row(lines))
    return "\n\n".join(parts)


def correlated(records: Records, first: str, second: str, when: When) -> tuple[str, str, str]:
    """A correlation, its range with one objective left out, and the number of objectives; empty if there is none."""
    try:
        found = correlation(records, first, second, when)
    except NotRecorded:
        return "", "", ""
    return (
        with_interval(found.interval, 2),
        f"{found.least:.2f} to {found.most:.2f}",
        str(found.subjects),
    )


def shown(values: np.ndarray) -> str:
    """A mean over seeds with its interval, or a number without seeds."""
    return with_interval(interval_of(np.atleast_1d(values), seeded=values.ndim > 0), 2)
