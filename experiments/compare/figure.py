"""What many objectives leave, as a dot plot sorted by effective outcomes; objectives that did the same share a line."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.compare.ranking import MEASURES, Result
from ipsrl.figures import style, table
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.records.line_styles import line_styles

_OUTCOMES, _REWARD, _BELOW = "#0072B2", "#B97700", "0.6"
_CHARACTERS = 62
"""Of a line of names."""
_LINE, _ROW = 0.135, 0.19
"""Inches: a further line of names, and a row of one line."""


def merged(results: Sequence[Result]) -> list[list[Result]]:
    """Results in the order given, equal ones together."""
    rows: list[list[Result]] = []
    for result in results:
        same = next((row for row in rows if row[0].equals(result)), None)
        if same is None:
            rows.append(same := [])
        same.append(result)
    return rows


def draw(title: str, results: Sequence[Result], bar: float, placebo: str) -> Drawing:
    """A line for each objective, or for several that are the same, in the order given; the first is on top.

    Left, effective outcomes at the end; right, reward; both with 95 % intervals over seeds (none where there
    is one seed). Objectives that did not reach the bar are grey. The rows of the drawing are both measures over
    training, of which the last update is drawn.

    Args:
      title: what all have in common.
      results: at least one.
      bar: the share of the best possible reward that had to be reached.
      placebo: name of the objective whose outcomes are a line through all rows, if it is here.
    """
    rows = merged(results)
    labels = [_label(row) for row in rows]
    heights = np.array([_ROW + _LINE * label.count("\n") for label in labels])
    places = np.cumsum(heights) - heights / 2
    longest = max(len(line) for label in labels for line in label.split("\n"))
    key = [Line2D([], [], color="0.4", linestyle="--", linewidth=1.0, label=f"the bar, {bar:.2f}")]
    with style.looks():
        figure = Figure(figsize=(4.6 + 0.062 * longest, float(heights.sum()) + 1.3))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1))
        left.set_yticks(places, labels, fontsize=7.5)
        for row, place, tick in zip(rows, places, left.get_yticklabels(), strict=True):
            above = row[0].rank is not None
            tick.set_color("black" if above else "0.45")
            _dot(
                left, row[0].final("effective_outcomes"), place, _OUTCOMES if above else _BELOW, "o"
            )
            _dot(right, row[0].final("reward"), place, _REWARD if above else _BELOW, "D")
        right.axvline(bar, color="0.4", linewidth=1.0, linestyle="--", zorder=1)
        for result in results:
            if result.name == placebo:
                look = {
                    "color": line_styles([placebo])[placebo]["color"],
                    "linewidth": 1.0,
                    "linestyle": (0, (1, 1.5)),
                }
                left.axvline(result.final("effective_outcomes").mean, zorder=1, **look)
                key.append(Line2D([], [], label="effective outcomes of the placebo", **look))
        if any(result.rank is None for result in results):
            look = {"color": _BELOW, "marker": "o", "linestyle": "none", "markersize": 4.2}
            key.append(Line2D([], [], label=f"reward below {bar:.2f}: not compared", **look))
        left.set_ylim(float(heights.sum()), 0)
        left.set_xlim(left=0)
        right.set_xlim(0, 1.08)
        for axes in (left, right):
            axes.grid(True)
            axes.tick_params(axis="y", length=0)
        left.set_xlabel("effective outcomes exp(H)")
        right.set_xlabel("reward / best reward")
        figure.suptitle(title, fontsize=10)
        figure.legend(handles=key, loc="outside lower center", ncols=2)
    return Drawing(
        figure,
        [row for result in results for measure in MEASURES for row in _numbers(result, measure)],
    )


def _numbers(result: Result, measure: str) -> list[table.Row]:
    updates, values = result.records.curve(measure)
    series = {"objective": result.name, "rank": result.rank, "measure": measure}
    return table.curve(series, mean_over_seeds(values), update=updates)


def _label(row: Sequence[Result]) -> str:
    names = " = ".join([row[0].label, *(result.name for result in row[1:])])
    return textwrap.fill(names, _CHARACTERS, break_on_hyphens=False)


def _dot(axes: Axes, interval: Interval, place: float, colour: str, marker: str) -> None:
    axes.plot(
        [interval.low, interval.high],
        [place, place],
        color=colour,
        linewidth=1.4,
        solid_capstyle="round",
    )
    axes.plot([interval.mean], [place], marker, color=colour, markersize=4.2)
