"""Mean time until noise breaks a tie, against group size: sampled training, the limit of small steps, and exact."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ipsrl.figures import style, table
from ipsrl.measures.seeds import Interval

LETTERS = 88
"""In a line of the text inside the figure."""


@dataclasses.dataclass(frozen=True)
class Share:
    """How many of an objective's `runs` have `collapsed`, and the 95 % interval `low` to `high` of their share."""

    collapsed: int
    runs: int
    low: float
    high: float


def draw(
    objective: str,
    sizes: np.ndarray,
    sampled: Sequence[Interval],
    formula: np.ndarray,
    exact: np.ndarray,
    threshold: float,
    kept: Mapping[str, Share],
    kept_steps: int,
) -> Figure:
    """Above, the times in updates; below, by how much they exceed the formula.

    Args:
      objective: name of the one that loses the tie.
      sizes: `[n]`, G, rising.
      sampled: n means over runs.
      formula: `[n]`, in the limit of small steps.
      exact: `[n]`, for steps of the size that was sampled.
      threshold: the probability at which an outcome has everything.
      kept: objective that should keep the tie -> its runs that lost it within `kept_steps` updates.
      kept_steps: see there.
    """
    mean, low, high = (np.array([getattr(interval, name) for interval in sampled]) for name in ("mean", "low", "high"))
    sampled_look = {"fmt": "o", "color": "black", "markerfacecolor": "white", "capsize": 3, "elinewidth": 1}
    with style.looks():
        figure = Figure(figsize=(6.4, 6.2))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
        above.plot(sizes, formula, color="#0072B2", label=f"{objective}, limit of small steps: linear in G")
        above.errorbar(
            sizes, mean, yerr=(mean - low, high - mean), **sampled_look,
            label=f"{objective}, sampled: mean of {sampled[0].seeds} runs, bars: 95 % intervals",
        )  # fmt: skip
        above.set_yscale("log")
        above.axhline(kept_steps, color="0.45", linewidth=1, linestyle=(0, (1, 2)))
        above.plot(
            sizes, np.full(len(sizes), kept_steps), "^", color="#E69F00", markeredgecolor="black",
            label=f"the others, named above: watched for {kept_steps:,} updates",
        )  # fmt: skip
        above.annotate(
            _in_lines(kept), (0.02, kept_steps), (0, 8), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="bottom", fontsize=7.5, color="0.25",
        )  # fmt: skip
        above.set_ylim(formula.min() / 2.5, max(formula.max(), kept_steps * 5))
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
            "exact for these steps", label, (0, 9), textcoords="offset points", ha="center", fontsize=7,
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


def data(
    objective: str,
    sizes: np.ndarray,
    sampled: Sequence[Interval],
    formula: np.ndarray,
    exact: np.ndarray,
    kept: Mapping[str, Share],
) -> list[table.Row]:
    """Updates until a tie is lost, for each G; the shares of the others' runs that lost it; arguments as in `draw`."""
    times = {"objective": objective, "measure": "updates_sampled"}
    rows = [times | {"group_size": size} | table.point(time) for size, time in zip(sizes, sampled, strict=True)]
    for measure, values in (("updates_in_small_steps", formula), ("updates_exact", exact)):
        rows += table.curve({"objective": objective, "measure": measure}, values, group_size=sizes)
    for name, share in kept.items():
        value = table.point(Interval(share.collapsed / share.runs, share.low, share.high, share.runs))
        rows.append({"objective": name, "measure": "share_of_runs_collapsed"} | value)
    return rows


def _in_lines(kept: Mapping[str, Share]) -> str:
    """What became of the objectives that should keep the tie, one to a paragraph where runs collapsed."""
    lines = [
        f"{name}: {100 * share.collapsed / share.runs:.2g} % of {share.runs:,} runs collapsed "
        f"[95 %: {100 * share.low:.2g}, {100 * share.high:.2g}]"
        for name, share in kept.items()
        if share.collapsed
    ]
    names = [name for name, share in kept.items() if not share.collapsed]
    if names:
        lines.append(f"none of {kept[names[0]].runs:,} runs of each collapsed: {', '.join(names)}")
    return "\n".join(textwrap.fill(line, LETTERS) for line in lines)
