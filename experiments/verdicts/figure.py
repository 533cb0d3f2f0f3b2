"""Where training ends, for many objectives and rewards at once: a table whose cells are bars of distributions."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.verdicts.verdict_page import BARS, SHOWN, PublishedVerdict
from ipsrl.dynamics.cases import CASES, STARTS
from ipsrl.dynamics.verdict import MEANINGS
from ipsrl.figures import style, table
from ipsrl.figures.style import Drawing

OUTCOMES = ("#0072B2", "#E69F00", "#DEDEDE")
"""Dark, middle and light, also in grey."""
# All lengths are inches.
WIDTH, MARGIN, NAMES = 7.7, 0.12, 2.75
CELL, BAR_SHARE = 1.2, 0.82
STRIP, GAP, LINE = 0.25, 0.05, 0.125
HEAD, WORD = 1.27, 0.5
LETTERS = 44
"""The most characters in a line of names."""

Row = Sequence[PublishedVerdict]
"""Objectives that do the same."""


def draw(rows: Sequence[Row], group_size: int) -> Drawing:
    """A cell for each row and case; in each, one stacked bar for each of the starts `SHOWN`, the policy at the end.

    Args:
      rows: in the order in which they are drawn, those of one word together.
      group_size: G.

    Raises:
      ValueError: there are no rows.
    """
    if not rows:
        raise ValueError("there is no verdict to draw")
    words = dict.fromkeys(row[0].word for row in rows)
    height = HEAD + WORD * len(words) + sum(map(_height, rows)) + MARGIN
    with style.looks():
        figure = Figure(figsize=(WIDTH, height))
        figure.get_layout_engine().set(w_pad=0, h_pad=0)
        axes = figure.add_subplot(xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        _head(axes, group_size)
        top = HEAD
        for word in words:
            meaning, worth = MEANINGS[word]
            axes.plot([MARGIN, WIDTH - MARGIN], [top + 0.06] * 2, color="0.6", linewidth=0.8)
            label = axes.annotate(
                word, (MARGIN, top + 0.21), va="center", fontweight="bold", fontsize=9.5
            )
            axes.annotate(f":  {meaning}", (1, 0.5), xycoords=label, va="center", fontsize=8)
            axes.annotate(
                worth, (MARGIN, top + 0.37), va="center", fontsize=8, color="0.35", style="italic"
            )
            top += WORD
            for row in rows:
                if row[0].word == word:
                    _row(axes, row, top)
                    top += _height(row)
    return Drawing(figure, [numbers for row in rows for numbers in _numbers(row)], BARS)


def _strips(row: Row) -> Mapping[str, Mapping[str, np.ndarray]]:
    """Reference policy (empty for objectives that look at none) -> case -> `[S, 3]`, the ends from `SHOWN`."""
    sides = row[0].ends
    return {
        f"{side} reference" if len(sides) > 1 else "": {
            name: np.array(ends)[list(SHOWN)] for name, ends in cases.items()
        }
        for side, cases in sides.items()
    }


def _numbers(row: Row) -> list[table.Row]:
    starts = np.array(STARTS)[list(SHOWN)]
    return [
        {
            "verdict": entry.word,
            "objective": entry.objective,
            "condition": condition,
            "rewards": name,
        }
        | {f"start_p{outcome}": chance for outcome, chance in enumerate(start, 1)}
        | {f"end_p{outcome}": chance for outcome, chance in enumerate(end, 1)}
        for entry in row
        for condition, cases in _strips(row).items()
        for name, ends in cases.items()
        for start, end in zip(starts, ends, strict=True)
    ]


def _lines(row: Row) -> list[str]:
    """The names, as they stand beside the bars."""
    return textwrap.wrap(
        ", ".join(entry.objective for entry in row), LETTERS, break_long_words=False
    )


def _height(row: Row) -> float:
    return max(STRIP / 2 + LINE * (len(_lines(row)) - 0.5), (STRIP + GAP) * len(row[0].ends)) + GAP


def _head(axes: Axes, group_size: int) -> None:
    title = f"Where training takes a policy over three outcomes: mean over groups of {group_size}"
    axes.annotate(title, (MARGIN, 0.2), va="center", fontsize=11)
    for column, (name, rewards) in enumerate(CASES.items()):
        left = _left(column)
        axes.annotate(name, (left, 0.46), va="center", fontweight="bold")
        for outcome, (reward, colour) in enumerate(zip(rewards, OUTCOMES, strict=True)):
            x = left + outcome * 0.36
            axes.bar(x, 0.11, 0.11, 0.6, color=colour, edgecolor="0.3", linewidth=0.4, align="edge")
            axes.annotate(f"{reward:g}", (x + 0.15, 0.66), va="center", fontsize=8)
        _bars(axes, left, 0.94, np.array(STARTS)[list(SHOWN)])
    for y, text in (
        (0.46, "rewards"),
        (0.66, "of outcomes 1, 2, 3"),
        (0.94 + STRIP / 2, "policies at the start"),
    ):
        axes.annotate(text, (NAMES + 0.08, y), va="center", ha="right", fontsize=8, color="0.35")


def _row(axes: Axes, row: Row, top: float) -> None:
    for number, line in enumerate(_lines(row)):
        axes.annotate(line, (MARGIN, top + STRIP / 2 + LINE * number), va="center", fontsize=7.5)
    for strip, (condition, cases) in enumerate(_strips(row).items()):
        y = top + strip * (STRIP + GAP)
        axes.annotate(
            condition,
            (NAMES + 0.08, y + STRIP / 2),
            va="center",
            ha="right",
            fontsize=6.5,
            color="0.35",
        )
        for column, name in enumerate(CASES):
            _bars(axes, _left(column), y, cases[name])


def _bars(axes: Axes, left: float, top: float, probs: np.ndarray) -> None:
    """One stacked bar for each distribution `[S, 3]`, outcome 1 at the bottom."""
    pitch = BAR_SHARE * CELL / len(probs)
    x = left + pitch * np.arange(len(probs))
    upper = top + STRIP * (1 - np.cumsum(probs, axis=1))
    for outcome, colour in enumerate(OUTCOMES):
        heights = STRIP * probs[:, outcome]
        axes.bar(
            x, heights, 0.84 * pitch, upper[:, outcome], color=colour, align="edge", linewidth=0
        )
    axes.bar(
        x,
        STRIP,
        0.84 * pitch,
        top,
        facecolor="none",
        edgecolor="0.35",
        align="edge",
        linewidth=0.35,
    )


def _left(column: int) -> float:
    return NAMES + 0.18 + column * CELL
