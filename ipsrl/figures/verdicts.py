"""Where training ends, for many objectives and rewards at once: a table whose cells are bars of laws."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipsrl.figures import style, table

OUTCOMES = ("#0072B2", "#E69F00", "#DEDEDE")
"""Dark, middle and light, also in grey."""
# All lengths are inches.
WIDTH, MARGIN, NAMES = 7.7, 0.12, 2.75
CELL, BAR_SHARE = 1.2, 0.82
STRIP, GAP, LINE = 0.25, 0.05, 0.125
LETTERS = 44
"""In a line of names."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Objectives that do the same.

    Attributes:
      word: what they do; rows of one word stand together.
      names: of the objectives.
      strips: under what (a reference policy; empty where there is nothing to say) -> column -> laws `[S, 3]`, where
        the flows from the S starts end.
    """

    word: str
    names: tuple[str, ...]
    strips: Mapping[str, Mapping[str, np.ndarray]]

    @property
    def lines(self) -> list[str]:
        """The names, as they stand beside the bars."""
        return textwrap.wrap(", ".join(self.names), LETTERS, break_long_words=False)

    @property
    def height(self) -> float:
        return max(STRIP / 2 + LINE * (len(self.lines) - 0.5), (STRIP + GAP) * len(self.strips)) + GAP


def draw(
    rows: Sequence[Row],
    columns: Mapping[str, Sequence[float]],
    starts: np.ndarray,
    meanings: Mapping[str, tuple[str, str]],
    group_size: int,
) -> Figure:
    """A cell for each row and column; in each, one stacked bar for each start, which shows the law at the end.

    Args:
      rows: in the order in which they are drawn.
      columns: name -> rewards of the three outcomes.
      starts: `[S, 3]`, drawn above everything else.
      meanings: word -> what it means, and what is good or bad about it, a line each.
      group_size: G, for the caption.

    Raises:
      ValueError: there are no rows.
    """
    if not rows:
        raise ValueError("there is no verdict to draw")
    words = list(dict.fromkeys(row.word for row in rows))
    head = 1.72
    height = head + 0.5 * len(words) + sum(row.height for row in rows) + MARGIN
    with style.looks():
        figure = Figure(figsize=(WIDTH, height))
        figure.get_layout_engine().set(w_pad=0, h_pad=0)
        axes = figure.add_subplot(xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        _head(axes, columns, starts, group_size)
        top = head
        for word in words:
            meaning, worth = meanings[word]
            axes.plot([MARGIN, WIDTH - MARGIN], [top + 0.06] * 2, color="0.6", linewidth=0.8)
            label = axes.annotate(word, (MARGIN, top + 0.21), va="center", fontweight="bold", fontsize=9.5)
            axes.annotate(f":  {meaning}", (1, 0.5), xycoords=label, va="center", fontsize=8)
            axes.annotate(worth, (MARGIN, top + 0.37), va="center", fontsize=8, color="0.35", style="italic")
            top += 0.5
            for row in rows:
                if row.word == word:
                    _row(axes, row, columns, top)
                    top += row.height
    return figure


def data(rows: Sequence[Row], columns: Mapping[str, Sequence[float]], starts: np.ndarray) -> list[table.Row]:
    """Where the flow from each start ends, for each objective and rewards; arguments as in `draw`."""
    return [
        {"verdict": row.word, "objective": name, "condition": condition, "rewards": column}
        | {f"start_p{outcome}": chance for outcome, chance in enumerate(start, 1)}
        | {f"end_p{outcome}": chance for outcome, chance in enumerate(end, 1)}
        for row in rows
        for name in row.names
        for condition, laws in row.strips.items()
        for column in columns
        for start, end in zip(starts, laws[column], strict=True)
    ]


def _head(axes: Axes, columns: Mapping[str, Sequence[float]], starts: np.ndarray, group_size: int) -> None:
    axes.annotate(
        f"Where training takes a policy over three outcomes: mean over groups of {group_size}",
        (MARGIN, 0.2),
        va="center",
        fontsize=11,
    )
    caption = (
        f"A bar is a policy: its three parts are the probabilities of the three outcomes. Each cell shows where the "
        f"{len(starts)} policies of the\nfirst row end, in the same order. Bars all alike: the end does not depend on "
        f"the start. One colour only: the others are lost."
    )
    axes.annotate(caption, (MARGIN, 0.5), va="center", fontsize=8, color="0.25")
    for number, (name, rewards) in enumerate(columns.items()):
        left = _left(number)
        axes.annotate(name, (left, 0.86), va="center", fontweight="bold")
        for outcome, (reward, colour) in enumerate(zip(rewards, OUTCOMES, strict=True)):
            x = left + outcome * 0.36
            axes.bar(x, 0.11, 0.11, 1.0, color=colour, edgecolor="0.3", linewidth=0.4, align="edge")
            axes.annotate(f"{reward:g}", (x + 0.15, 1.06), va="center", fontsize=8)
        _bars(axes, left, 1.34, starts)
    for y, text in ((0.86, "rewards"), (1.06, "of outcomes 1, 2, 3"), (1.34 + STRIP / 2, "policies at the start")):
        axes.annotate(text, (NAMES + 0.08, y), va="center", ha="right", fontsize=8, color="0.35")


def _row(axes: Axes, row: Row, columns: Mapping[str, Sequence[float]], top: float) -> None:
    for number, line in enumerate(row.lines):
        axes.annotate(line, (MARGIN, top + STRIP / 2 + LINE * number), va="center", fontsize=7.5)
    for strip, (condition, laws) in enumerate(row.strips.items()):
        y = top + strip * (STRIP + GAP)
        axes.annotate(condition, (NAMES + 0.08, y + STRIP / 2), va="center", ha="right", fontsize=6.5, color="0.35")
        for number, column in enumerate(columns):
            _bars(axes, _left(number), y, laws[column])


def _bars(axes: Axes, left: float, top: float, laws: np.ndarray) -> None:
    """One stacked bar for each law `[S, 3]`, outcome 1 at the bottom."""
    pitch = BAR_SHARE * CELL / len(laws)
    x = left + pitch * np.arange(len(laws))
    upper = top + STRIP * (1 - np.cumsum(laws, axis=1))
    for outcome, colour in enumerate(OUTCOMES):
        heights = STRIP * laws[:, outcome]
        axes.bar(x, heights, 0.84 * pitch, upper[:, outcome], color=colour, align="edge", linewidth=0)
    axes.bar(x, STRIP, 0.84 * pitch, top, facecolor="none", edgecolor="0.35", align="edge", linewidth=0.35)


def _left(column: int) -> float:
    return NAMES + 0.18 + column * CELL
