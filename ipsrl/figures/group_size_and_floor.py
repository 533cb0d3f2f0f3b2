"""Recovery over group size and probability floor: the grid of Table 4 of arXiv 2601.21669."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from ipsrl.figures import style, table
from ipsrl.measures.seeds import mean_over_seeds


def draw(group_sizes: Sequence[int], floors: Sequence[float], recovery: np.ndarray) -> Figure:
    """A table of mean recoveries, coloured by value, with 95 % bootstrap intervals where there are several seeds.

    An outcome that was sampled has a frequency of at least 1/G, so that a floor of 1/G or less cannot act: those cells
    are outlined, and all that share a row must agree.

    Args:
      group_sizes: n values of G, the rows.
      floors: m floors, the columns.
      recovery: `[n, m, S]`, S seeds.

    Raises:
      ValueError: `recovery` does not have that shape.
    """
    recovery = np.asarray(recovery)
    if recovery.ndim != 3 or recovery.shape[:2] != (len(group_sizes), len(floors)):
        raise ValueError(f"recovery {recovery.shape} must be [{len(group_sizes)}, {len(floors)}, seed]")
    means = recovery.mean(axis=-1)
    # White beside the line tells it from any cell in grey.
    beside = [withStroke(linewidth=3.6, foreground="white")]
    outline = {"fill": False, "edgecolor": "#D55E00", "linewidth": 2, "path_effects": beside}
    with style.looks():
        figure = Figure(figsize=(1.9 + 1.15 * len(floors), 1.7 + 0.55 * len(group_sizes)))
        axes = figure.subplots()
        image = axes.imshow(means, cmap="cividis", aspect="auto")
        for row, column in np.ndindex(means.shape):
            dark = image.norm(means[row, column]) < 0.5
            _write(axes, row, column, recovery[row, column], colour="white" if dark else "black")
            if floors[column] <= 1 / group_sizes[row]:
                axes.add_patch(Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, **outline))
        axes.set_xticks(range(len(floors)), [f"{floor:g}" for floor in floors])
        axes.set_yticks(range(len(group_sizes)), [str(size) for size in group_sizes])
        axes.set_xlabel("probability floor")
        axes.set_ylabel("group size G")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        figure.colorbar(image, ax=axes, label="recovery").outline.set_visible(False)
        key = Rectangle((0, 0), 1, 1, label="floor ≤ 1/G: cannot act", **outline)
        figure.legend(handles=[key], loc="outside lower center")
    return figure


def data(group_sizes: Sequence[int], floors: Sequence[float], recovery: np.ndarray) -> list[table.Row]:
    """The mean recovery of every cell, and whether its floor can act; arguments as in `draw`."""
    return [
        {"group_size": size, "floor": floor, "floor_can_act": floor > 1 / size}
        | table.point(mean_over_seeds(recovery[row, column]))
        for row, size in enumerate(group_sizes)
        for column, floor in enumerate(floors)
    ]


def _write(axes: Axes, row: int, column: int, values: np.ndarray, colour: str) -> None:
    interval = mean_over_seeds(values)
    centred = {"ha": "center", "color": colour}
    if interval.seeds == 1:
        axes.text(column, row, f"{interval.mean:.2f}", va="center", **centred)
    else:
        axes.text(column, row - 0.02, f"{interval.mean:.2f}", va="bottom", **centred)
        axes.text(column, row + 0.06, f"{interval.low:.2f} to {interval.high:.2f}", va="top", fontsize=7, **centred)
