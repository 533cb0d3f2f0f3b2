"""Dot plots of many trained objectives, sorted by effective outcomes; objectives with the same results share a line."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.compare.ranking import MEASURES, PLACEBO, Result
from ipsrl.figures import style, table
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import mean_over_seeds

_COLOURS = {"effective_outcomes": "#0072B2", "reward": "#B97700"}
_BELOW = "0.6"
_BAR = {"color": "0.4", "linewidth": 1.0, "linestyle": "--"}
_PLACEBO = {"color": "#009E73", "linewidth": 1.0, "linestyle": (0, (1, 1.5))}
_CHARACTERS = 62
"""The most characters in a line of names."""
_LINE, _ROW = 0.135, 0.19
"""Heights in inches: of each further line of names, and of a row with one line."""


def merged(results: Sequence[Result]) -> list[list[Result]]:
    """Results in the order given, equal ones together."""
    rows: list[list[Result]] = []
    for result in results:
        same = next((row for row in rows if row[0].equals(result)), None)
        if same is None:
            rows.append(same := [])
        same.append(result)
    return rows


def draw(title: str, results: Sequence[Result], bar: float) -> Drawing:
    """A line for each objective, or for several that are the same, in the order given; the first is on top.

    Left, effective outcomes at the end; right, reward; both with 95 % intervals over seeds (none where there
    is one seed). Objectives that did not reach the bar are grey. The rows of the drawing are both measures over
    training, of which the last update is drawn.

    Args:
      title: what all have in common.
      results: at least one; the outcomes of the placebo, if it is here, are a line through all rows.
      bar: the share of the best possible reward that had to be reached.
    """
    rows = merged(results)
    labels = [_label(row) for row in rows]
    heights = np.array([_ROW + _LINE * label.count("\n") for label in labels])
    places = np.cumsum(heights) - heights / 2
    longest = max(len(line) for label in labels for line in label.split("\n"))
    below = [row[0].rank is None for row in rows]
    with style.looks():
        figure = Figure(figsize=(4.6 + 0.062 * longest, float(heights.sum()) + 1.3))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1))
        left.set_yticks(places, labels, fontsize=7.5)
        for tick, grey in zip(left.get_yticklabels(), below, strict=True):
            tick.set_color("0.45" if grey else "black")
        _dots(left, rows, places, "effective_outcomes", "o")
        _dots(right, rows, places, "reward", "D")
        right.axvline(bar, zorder=1, label=f"the bar, {bar:.2f}", **_BAR)
        for result in results:
            if result.name == PLACEBO:
                label = "effective outcomes of the placebo"
                left.axvline(result.outcomes, zorder=1, label=label, **_PLACEBO)
        if any(below):
            label = f"reward below {bar:.2f}: not compared"
            left.scatter([], [], 18, color=_BELOW, label=label)
        left.set(
            xlabel="effective outcomes exp(H)",
            xlim=(0, None),
            ylim=(heights.sum(), 0),
        )
        right.set(
            xlabel="reward / best reward",
            xlim=(0, 1.08),
        )
        figure.suptitle(title, fontsize=10)
        figure.legend(loc="outside lower center", ncols=2)
    numbers = [row for result in results for name in MEASURES for row in _numbers(result, name)]
    return Drawing(figure, numbers)


def _dots(
    axes: Axes,
    rows: Sequence[Sequence[Result]],
    places: np.ndarray,
    measure: str,
    marker: str,
) -> None:
    for row, place in zip(rows, places, strict=True):
        interval = row[0].records.final(measure)
        colour = _BELOW if row[0].rank is None else _COLOURS[measure]
        axes.plot(
            [interval.low, interval.high],
            [place, place],
            color=colour,
            linewidth=1.4,
            solid_capstyle="round",
        )
        axes.plot([interval.mean], [place], marker, color=colour, markersize=4.2)
    axes.grid(True)
    axes.tick_params(axis="y", length=0)


def _numbers(result: Result, measure: str) -> list[table.Row]:
    updates, values = result.records.curve(measure)
    series = {"objective": result.name, "rank": result.rank, "measure": measure}
    return table.curve(series, mean_over_seeds(values), update=updates)


def _label(row: Sequence[Result]) -> str:
    names = " = ".join([row[0].label, *(result.name for result in row[1:])])
    return textwrap.fill(names, _CHARACTERS, break_on_hyphens=False)
