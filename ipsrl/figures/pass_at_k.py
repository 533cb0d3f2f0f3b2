"""pass@k against k: what a policy gets right in one answer, and what it can still find in many."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ipsrl.figures import style, table
from ipsrl.measures.seeds import mean_over_seeds

START = "before training"


def draw(tried: Sequence[int], start: np.ndarray, trained: Mapping[str, np.ndarray], title: str) -> Figure:
    """One line for each objective, and a thin one for the start, which all of them share.

    Bands are 95 % bootstrap intervals over seeds (none where there is one seed).

    Args:
      tried: K rising numbers of answers k.
      start: `[K]`, pass@k before training.
      trained: objective -> `[S, K]`, pass@k after training, one row for each seed.
      title: what was asked, and how often.

    Raises:
      ValueError: a row has another length than `tried`.
    """
    tried = np.asarray(tried)
    for name, values in {START: start, **trained}.items():
        if np.shape(values)[-1] != len(tried):
            raise ValueError(f"pass@k of {name} has {np.shape(values)[-1]} columns, there are {len(tried)} k")
    styles = style.line_styles(trained)
    with style.looks():
        figure = Figure(figsize=(6.4, 3.6))
        axes = figure.subplots()
        axes.plot(tried, start, color="0.35", linewidth=1.4, linestyle=(0, (1, 2)))
        ends, highest = {START: (start[-1], "0.35")}, np.max(start)
        for name, values in trained.items():
            interval = mean_over_seeds(values)
            colour = styles[name]["color"]
            axes.fill_between(tried, interval.low, interval.high, color=colour, alpha=0.25, linewidth=0)
            axes.plot(tried, interval.mean, markerfacecolor="white", **styles[name])
            ends[name] = (interval.mean[-1], colour)
            highest = max(highest, np.max(values))
        axes.set_xscale("log", base=2)
        axes.set_xticks(tried, [str(k) for k in tried])
        axes.minorticks_off()
        # The scale is that of the shares, which lie far below 1 where questions are hard.
        axes.set_ylim(0, min(1.02, 1.1 * highest) or 1.0)
        style.label_ends(axes, tried[-1], ends)
        axes.set_xlabel("k, number of answers")
        axes.set_ylabel("pass@k: share of questions with\na right one among k answers")
        axes.set_title(title)
        axes.grid(True)
    return figure


def data(tried: Sequence[int], start: np.ndarray, trained: Mapping[str, np.ndarray]) -> list[table.Row]:
    """pass@k against k, before training and after it; arguments as in `draw`."""
    rows = table.curve({"objective": START}, start, k=tried)
    for name, values in trained.items():
        rows += table.curve({"objective": name}, mean_over_seeds(values), k=tried)
    return rows
