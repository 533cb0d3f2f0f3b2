"""Mean time until noise breaks a tie, against group size: sampled training, the limit of small steps, and exact."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ipsrl.figures import style
from ipsrl.measures.seeds import Interval


@dataclasses.dataclass(frozen=True)
class Point:
    """One group size; all times are in updates.

    Attributes:
      group_size: G.
      sampled: mean over runs.
      formula: in the limit of small steps.
      exact: for steps of the size that was sampled.
    """

    group_size: int
    sampled: Interval
    formula: float
    exact: float


def draw(points: Sequence[Point], threshold: float, kept: Mapping[str, float], kept_steps: int) -> Figure:
    """Above, the times; below, by how much they exceed the formula.

    Args:
      points: of the objective that loses the tie, in rising order of G.
      threshold: the probability at which an outcome has everything.
      kept: objective that should keep the tie -> share of its runs that lost it within `kept_steps` updates.
      kept_steps: see there.
    """
    sizes = np.array([point.group_size for point in points])
    formula, exact = (np.array([getattr(point, name) for point in points]) for name in ("formula", "exact"))
    mean, low, high = (np.array([getattr(point.sampled, name) for point in points]) for name in ("mean", "low", "high"))
    sampled_look = {"fmt": "o", "color": "black", "markerfacecolor": "white", "capsize": 3, "elinewidth": 1}
    with style.looks():
        figure = Figure(figsize=(5.8, 5.0))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
        above.plot(sizes, formula, color="#0072B2", label="limit of small steps: linear in G")
        above.errorbar(
            sizes, mean, yerr=(mean - low, high - mean), **sampled_look,
            label=f"no baseline, sampled: mean of {points[0].sampled.seeds} runs",
        )  # fmt: skip
        above.set_yscale("log")
        above.axhline(kept_steps, color="0.45", linewidth=1, linestyle=(0, (1, 2)))
        above.plot(sizes, np.full(len(sizes), kept_steps), "^", color="#E69F00", markeredgecolor="black")
        above.annotate(
            f"in {kept_steps:,} updates collapsed\n{_in_lines(kept)}",
            (0.02, kept_steps), (0, -8), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="top", fontsize=7.5, color="0.25",
        )  # fmt: skip
        above.set_ylim(formula.min() / 2.5, max(formula.max(), kept_steps) * 1.6)
        above.set_ylabel(f"updates until one outcome has p = {threshold:g}")
        above.set_title("Two equally good outcomes: how long until noise drops one?")
        above.legend(loc="lower right")

        below.axhline(0, color="#0072B2", linewidth=1.8)
        below.plot(sizes, 100 * (exact / formula - 1), color="#D55E00", linestyle="--", marker="_", markersize=9)
        below.errorbar(
            sizes, 100 * (mean / formula - 1), yerr=100 * np.stack([mean - low, high - mean]) / formula, **sampled_look,
        )  # fmt: skip
        middle = slice(max(0, len(sizes) // 2 - 1), len(sizes) // 2 + 1)
        label = np.exp(np.log(sizes[middle]).mean()), 100 * (exact / formula - 1)[middle].mean()
        below.annotate(
            "exact for these steps", label, (0, 5), textcoords="offset points", ha="center", fontsize=7,
            color="#D55E00",
        )  # fmt: skip
        below.set_xscale("log", base=2)
        below.set_xticks(sizes, [str(size) for size in sizes])
        below.minorticks_off()
        below.set_xlabel("group size G")
        below.set_ylabel("above the formula, %")
        for axes in (above, below):
            axes.grid(True)
    return figure


def _in_lines(kept: Mapping[str, float]) -> str:
    """The objectives in a sentence, a few in each line."""
    names = [name for name, share in kept.items() if share == 0]
    lines = ["  " + ", ".join(names[first : first + 3]) for first in range(0, len(names), 3)]
    some = [f"{share:.1%} of the runs of {name}" for name, share in kept.items() if share > 0]
    return "\n".join([*some, "no run of", ",\n".join(lines)])
