"""Learned laws on a two-dimensional hypergrid beside the reward-proportional target."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from ipsrl.figures import style, table
from ipsrl.measures.distances import mean_l1, total_l1

OUTLINE = {
    "fill": False, "edgecolor": "#D55E00", "linewidth": 1.6, "clip_on": False,
    "path_effects": [withStroke(linewidth=3.2, foreground="white")],
}  # fmt: skip
"""Of modes: white beside the line tells it from dark cells in grey."""


def draw(laws: Mapping[str, np.ndarray], target: np.ndarray, modes: np.ndarray) -> Figure:
    """One heat map for the target and one for each objective, on one logarithmic colour scale.

    The scale is logarithmic because a collapsed policy has all its mass on one cell, beside which the target would be
    blank; it starts at a third of the target's least probability, and cells below that, with zero too, are white.

    Args:
      laws: objective -> `[side, side]` probabilities.
      target: `[side, side]` probabilities.
      modes: `[side, side]` bool, the cells to outline.

    Raises:
      ValueError: the arrays are not all of one `[side, side]` shape.
    """
    panels = {name: np.asarray(law) for name, law in {"target": target, **laws}.items()}
    target = panels["target"]
    shapes = {np.shape(panel) for panel in (*panels.values(), modes)}
    if len(shapes) != 1 or np.ndim(target) != 2:
        raise ValueError(f"all laws and modes must have one [side, side] shape, not {sorted(shapes)}")
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    with style.looks():
        figure = Figure(figsize=(2.3 * columns + 0.8, 2.7 * rows))
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        norm = LogNorm(vmin=np.min(target[target > 0]) / 3, vmax=1.0)
        colours = matplotlib.colormaps["viridis_r"].with_extremes(under="white", bad="white")
        for axes, (name, law) in zip(grid, panels.items(), strict=False):
            image = axes.imshow(np.ma.masked_equal(law, 0).T, origin="lower", norm=norm, cmap=colours)
            for x, y in zip(*np.nonzero(modes), strict=True):
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **OUTLINE))
            distance = f"L1 = {float(total_l1(np.ravel(law), np.ravel(target))):.3f}"
            per_cell = f"per cell {float(mean_l1(np.ravel(law), np.ravel(target))):.4f}"
            axes.set_title(
                "target r / Σr\nmodes outlined" if name == "target" else f"{name}\n{distance}, {per_cell}", fontsize=9
            )
            axes.set_xlabel("x₁")
            axes.set_ylabel("x₂")
            axes.spines[:].set_visible(True)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.colorbar(image, ax=list(grid), label="probability of a cell", shrink=0.85, extend="min")
    return figure


def data(laws: Mapping[str, np.ndarray], target: np.ndarray, modes: np.ndarray) -> list[table.Row]:
    """The probability of every cell, of the target and of each objective; arguments as in `draw`."""
    return [
        {"law": name, "x1": x1, "x2": x2, "mode": modes[x1, x2], "value": probability}
        for name, law in {"target": target, **laws}.items()
        for (x1, x2), probability in np.ndenumerate(law)
    ]
