"""What many objectives leave, as a dot plot sorted by effective outcomes; objectives that did the same share a line."""

import dataclasses
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ipsrl.figures import style, table
from ipsrl.measures.seeds import Interval, mean_over_seeds

_OUTCOMES, _REWARD, _PLACEBO, _BELOW = "#0072B2", "#B97700", "#D55E00", "0.6"
_CHARACTERS = 62
"""Of a line of names."""
_LINE, _ROW = 0.135, 0.19
"""Inches: a further line of names, and a row of one line."""
_SAME = 0.005
"""Numbers that differ by less are the same in print."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One objective.

    Attributes:
      name: its specification.
      updates: `[U]`, when it was measured.
      effective_outcomes: `[S, U]`, one row for each seed.
      reward: `[S, U]`, as a share of the best possible reward.
      rank: by outcomes at the end; None where the final reward is too low for them to be compared.
    """

    name: str
    updates: np.ndarray
    effective_outcomes: np.ndarray
    reward: np.ndarray
    rank: int | None

    def final(self, measure: str) -> Interval:
        """Mean over seeds at the end, with a 95 % bootstrap interval."""
        return mean_over_seeds(np.asarray(getattr(self, measure))[:, -1])


def merged(results: Sequence[Result]) -> list[list[Result]]:
    """Results in the order given, those together that are the same: equal in every seed at every measurement."""
    rows: list[list[Result]] = []
    for result in results:
        row = next((row for row in rows if _same(row[0], result)), None)
        if row is None:
            rows.append([result])
        else:
            row.append(result)
    return rows


def _same(one: Result, other: Result) -> bool:
    return one.rank == other.rank and all(
        np.shape(getattr(one, measure)) == np.shape(getattr(other, measure))
        and np.allclose(getattr(one, measure), getattr(other, measure), rtol=0, atol=_SAME)
        for measure in ("effective_outcomes", "reward")
    )


def draw(title: str, results: Sequence[Result], bar: float, placebo: float | None) -> Figure:
    """A line for each objective, or for several that are the same, in the order given; the first is on top.

    Left, effective outcomes at the end; right, reward; both with 95 % bootstrap intervals over seeds (none where there
    is one seed). Objectives that did not reach the bar are grey.

    Args:
      title: what all have in common.
      results: at least one.
      bar: the share of the best possible reward that had to be reached.
      placebo: the placebo's effective outcomes at the end; None where there is no placebo.

    Raises:
      ValueError: there is no result.
    """
    if not results:
        raise ValueError("there is nothing to compare: no objective was trained")
    rows = merged(results)
    labels = [_label(row) for row in rows]
    heights = np.array([_ROW + _LINE * label.count("\n") for label in labels])
    places = np.cumsum(heights) - heights / 2
    longest = max(len(line) for label in labels for line in label.split("\n"))
    with style.looks():
        figure = Figure(figsize=(4.6 + 0.062 * longest, float(heights.sum()) + 1.3))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1))
        for row, place in zip(rows, places, strict=True):
            colours = (_OUTCOMES, _REWARD) if row[0].rank is not None else (_BELOW, _BELOW)
            _dot(left, row[0].final("effective_outcomes"), place, colours[0], "o")
            _dot(right, row[0].final("reward"), place, colours[1], "D")
        if placebo is not None:
            left.axvline(placebo, color=_PLACEBO, linewidth=1.0, linestyle=(0, (1, 1.5)), zorder=1)
        right.axvline(bar, color="0.4", linewidth=1.0, linestyle="--", zorder=1)
        left.set_yticks(places, labels, fontsize=7.5)
        for tick, row in zip(left.get_yticklabels(), rows, strict=True):
            tick.set_color("black" if row[0].rank is not None else "0.45")
        left.set_ylim(float(heights.sum()), 0)
        left.set_xlim(left=0)
        right.set_xlim(0, 1.03)
        for axes in (left, right):
            axes.grid(True)
            axes.tick_params(axis="y", length=0)
        left.set_xlabel("effective outcomes exp(H)")
        right.set_xlabel("reward, share of the best")
        figure.suptitle(title, fontsize=10)
        figure.legend(handles=_key(rows, bar, placebo), loc="outside lower center", ncols=2)
    return figure


def data(results: Sequence[Result]) -> list[table.Row]:
    """Effective outcomes, and reward as a share of the best possible one, over the updates of every objective.

    The last update is what the figure shows.
    """
    return [
        row
        for result in results
        for measure in ("effective_outcomes", "reward")
        for row in table.curve(
            {"objective": result.name, "rank": result.rank, "measure": measure},
            mean_over_seeds(getattr(result, measure)),
            update=result.updates,
        )
    ]


def _label(row: Sequence[Result]) -> str:
    rank = "" if row[0].rank is None else f"{row[0].rank}. "
    return textwrap.fill(rank + " = ".join(result.name for result in row), _CHARACTERS, break_on_hyphens=False)


def _dot(axes: Axes, interval: Interval, place: float, colour: str, marker: str) -> None:
    axes.plot([interval.low, interval.high], [place, place], color=colour, linewidth=1.4, solid_capstyle="round")
    axes.plot([interval.mean], [place], marker, color=colour, markersize=4.2)


def _key(rows: Sequence[Sequence[Result]], bar: float, placebo: float | None) -> list[Line2D]:
    """What lines and colours mean, for those that are drawn."""
    entries = [Line2D([], [], color="0.4", linestyle="--", linewidth=1.0, label=f"the bar, {bar:.2f}")]
    if placebo is not None:
        look = {"color": _PLACEBO, "linewidth": 1.0, "linestyle": (0, (1, 1.5))}
        entries.append(Line2D([], [], label="effective outcomes of the placebo", **look))
    if any(row[0].rank is None for row in rows):
        below = f"reward below {bar:.2f}: not compared"
        entries.append(Line2D([], [], color=_BELOW, marker="o", linestyle="none", markersize=4.2, label=below))
    return entries
