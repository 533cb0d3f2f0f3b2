"""Two equally good outcomes with many and with few paths: what share each objective leaves them."""

import itertools
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipsrl.figures import style, table
from ipsrl.measures.seeds import mean_over_seeds

NAME_SIZE, LINE_OF_NAME = 7.5, 0.05
"""Points, and the height of a line of this size on the axis of shares."""


def draw(
    updates: np.ndarray,
    shares: Mapping[str, np.ndarray],
    path_counts: np.ndarray,
    more_paths: int,
    fewer_paths: int,
) -> Figure:
    """Left the lattice, in the middle the share over training, right the share at the end, seed by seed.

    Args:
      updates: `[U]`, when shares were measured; 0 is the start.
      shares: objective -> `[S, U]`, what the outcome with more paths has of the probability of both.
      path_counts: `[depth + 1]`, number of lattice paths to each end (x, depth - x).
      more_paths, fewer_paths: x of the two rewarded ends.

    Raises:
      ValueError: an objective's shares are not `[S, U]`.
    """
    for name, values in shares.items():
        if np.ndim(values) != 2 or np.shape(values)[1] != len(updates):
            raise ValueError(f"the shares of {name} {np.shape(values)} must be [seed, {len(updates)}]")
    styles = style.line_styles(shares)
    with style.looks():
        figure = Figure(figsize=(7.1 + 1.2 * len(shares), 3.7))
        lattice, curves, seeds = figure.subplots(1, 3, width_ratios=(2.6, 3.2, 1.2 * len(shares)))
        _draw_lattice(lattice, path_counts, more_paths, fewer_paths)
        _draw_curves(curves, updates, shares, styles)
        _draw_seeds(seeds, shares, styles)
        more, fewer = path_counts[more_paths], path_counts[fewer_paths]
        for axes in (curves, seeds):
            axes.set_ylim(-0.03, 1.03)
            axes.grid(True, axis="y")
            for level in (0.5, more / (more + fewer)):
                axes.axhline(level, color="0.45", linewidth=1, linestyle=(0, (1, 2)), zorder=0)
        curves.set_ylabel(f"share of the {more}-path outcome among the two")
        for level, text in ((0.5, "1 : 1\nas the rewards"), (more / (more + fewer), f"{more} : {fewer}\nas the paths")):
            seeds.annotate(
                text, (1, level), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
                fontsize=8, color="0.35",
            )  # fmt: skip
    return figure


def data(updates: np.ndarray, shares: Mapping[str, np.ndarray]) -> list[table.Row]:
    """The share of the outcome with more paths, over the updates and, run by run, at the end."""
    rows = []
    for name, values in shares.items():
        over_training = {"objective": name, "measure": "mean_share"}
        rows += table.curve(over_training, mean_over_seeds(values), update=updates)
        at_the_end = {"objective": name, "measure": "share_at_the_end", "update": updates[-1]}
        rows += table.curve(at_the_end, values[:, -1], run=range(len(values)))
    return rows


def _draw_lattice(axes: Axes, path_counts: np.ndarray, more_paths: int, fewer_paths: int) -> None:
    depth = len(path_counts) - 1
    for x in range(depth):
        for y in range(depth - x):
            axes.plot([x, x + 1], [y, y], color="0.75", linewidth=1, zorder=1)
            axes.plot([x, x], [y, y + 1], color="0.75", linewidth=1, zorder=1)
    ends = np.arange(depth + 1)
    axes.plot(ends, depth - ends, "o", color="0.6", markerfacecolor="white", zorder=2)
    axes.plot(0, 0, "o", color="0.3", markersize=4, zorder=2)
    axes.annotate("start", (0, 0), (0, -6), textcoords="offset points", ha="center", va="top", fontsize=8)
    for x in (more_paths, fewer_paths):
        axes.plot(x, depth - x, "o", color="0.3", markersize=9, zorder=3)
        paths = f"{path_counts[x]} path{'s' if path_counts[x] > 1 else ''}"
        axes.annotate(
            f"reward 1,\n{paths}", (x, depth - x), (8, 3), textcoords="offset points", fontsize=8.5,
            fontweight="bold", va="bottom",
        )  # fmt: skip
    axes.annotate(
        "○ reward 0", (depth, 0), (0, -6), textcoords="offset points", ha="center", va="top", fontsize=8, color="0.35"
    )
    axes.set_title("Each step goes right or up")
    axes.set_aspect("equal")
    axes.set_xlim(-0.6, depth + 0.9)
    axes.set_ylim(-1.0, depth + 1.2)
    axes.axis("off")


def _draw_curves(axes: Axes, updates: np.ndarray, shares: Mapping[str, np.ndarray], styles: dict) -> None:
    for position, (name, values) in enumerate(shares.items()):
        interval = mean_over_seeds(values)
        every = max(1, len(updates) // 6)
        # The first marker of each line is elsewhere, because lines may lie on each other.
        first = (1 + 2 * position) % every
        axes.plot(updates, interval.mean, markevery=(first, every), markerfacecolor="white", **styles[name])
        axes.fill_between(updates, interval.low, interval.high, color=styles[name]["color"], alpha=0.25, linewidth=0)
    for name, end, height in zip(shares, *_apart(shares), strict=True):
        axes.annotate(
            _in_lines(name), (updates[-1], end), (1.06, height), textcoords=("axes fraction", "data"), va="center",
            fontsize=NAME_SIZE, color=styles[name]["color"], annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": styles[name]["color"], "linewidth": 0.6, "relpos": (0, 0.5)},
        )  # fmt: skip
    axes.set_xlim(0, updates[-1])
    axes.set_xlabel("updates")
    axes.set_title("During training: mean, 95 % interval")


def _apart(shares: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Where lines end, and heights for their names, moved up and then down until none is on another."""
    ends = np.array([mean_over_seeds(values[:, -1]).mean for values in shares.values()])
    room = LINE_OF_NAME * np.array([_in_lines(name).count("\n") + 1.4 for name in shares])
    heights, order = ends.copy(), np.argsort(ends, kind="stable")
    for below, above in itertools.pairwise(order):
        heights[above] = max(heights[above], heights[below] + (room[below] + room[above]) / 2)
    heights[order[-1]] = min(heights[order[-1]], 1.0)
    for below, above in reversed(list(itertools.pairwise(order))):
        heights[below] = min(heights[below], heights[above] - (room[below] + room[above]) / 2)
    return ends, heights


def _in_lines(name: str) -> str:
    return name.replace("(", "\n(").replace(", ", ",\n").replace(") ", ")\n")


def _draw_seeds(axes: Axes, shares: Mapping[str, np.ndarray], styles: dict) -> None:
    for column, (name, values) in enumerate(shares.items()):
        look = {key: styles[name][key] for key in ("color", "marker")}
        spread = column + np.linspace(-0.32, 0.12, len(values))
        axes.plot(spread, values[:, -1], linestyle="none", markersize=3.5, alpha=0.7, **look)
        mean = mean_over_seeds(values[:, -1]).mean
        axes.plot([column - 0.36, column + 0.16], [mean, mean], color="black", linewidth=1.2)
        axes.annotate(
            f"{mean:.2f}", (column + 0.16, mean), (3, 0), textcoords="offset points", va="center", fontsize=8.5,
            fontweight="bold", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    axes.set_xticks(range(len(shares)), list(map(_in_lines, shares)), fontsize=NAME_SIZE)
    axes.set_xlim(-0.6, len(shares) - 0.4)
    axes.tick_params(axis="x", length=0)
    axes.set_title(f"At the end: {len(values)} seeds, and their mean")
