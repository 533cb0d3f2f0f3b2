"""Survival of the weaker of two outcomes over group size and exponent, with the closed-form border."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from ipsrl.figures import style, table


@dataclasses.dataclass(frozen=True)
class Panel:
    """One rule: n exponents, m group sizes.

    Attributes:
      rule: its name.
      formula: of the border, for the label.
      group_sizes: `[m]`, rising.
      alphas: `[n]`, rising.
      survival: `[n, m]`, share of seeds in which the weaker outcome survives.
      probability: `[n, m]`, its mean probability.
      wrong: `[n, m]` bool, cells on the wrong side of the border.
      border: group sizes and critical alphas, `[2, b]`: the line.
    """

    rule: str
    formula: str
    group_sizes: np.ndarray
    alphas: np.ndarray
    survival: np.ndarray
    probability: np.ndarray
    wrong: np.ndarray
    border: np.ndarray


def caption(rewards: tuple[float, float], threshold: float, runs: str) -> str:
    """How to read the figure.

    Args:
      rewards: r_1 > r_2.
      threshold: of the mean p_2 above which an outcome counts as surviving.
      runs: how many and how long, in words.
    """
    return (
        "Inverse probability scaling by counts: which groups keep the weaker of two outcomes? "
        f"Rewards {rewards[0]:g} and {rewards[1]:g}, ρ = {rewards[0] / rewards[1]:g}. "
        f"Shades: sampled training, {runs}; survival: mean p₂ > {threshold:g} in the second half. "
        "Line: closed form, written above each column. They agree where dark begins at the line; "
        "×: cells on its wrong side."
    )


def draw(panels: Sequence[Panel], rewards: tuple[float, float]) -> Figure:
    """Above, the share of seeds in which the weaker outcome survives; below, its mean probability. One column a rule.

    The line is the border. Cells that it has on the wrong side are crossed out.

    Args:
      panels: one for each rule, on the same grid.
      rewards: r_1 > r_2.
    """
    shades = LinearSegmentedColormap.from_list("shades", ["#FFFFFF", "#A9CCE6", "#0072B2", "#003A5C"])
    target = rewards[1] / sum(rewards)
    highest = max(panel.probability.max() for panel in panels)
    with style.looks():
        figure = Figure(figsize=(2.75 * len(panels) + 0.9, 5.2))
        grid = figure.subplots(2, len(panels), sharex=True, sharey=True, squeeze=False)
        for column, panel in enumerate(panels):
            above, below = grid[:, column]
            survived = _map(above, panel, panel.survival, shades, 1.0)
            probability = _map(below, panel, panel.probability, shades, highest)
            for axes in (above, below):
                _border(axes, panel)
            rows, columns = np.nonzero(panel.wrong)
            above.plot(
                panel.group_sizes[columns], panel.alphas[rows], "x", color="#D55E00", markersize=4, markeredgewidth=1.2
            )
            above.set_title(f"{panel.rule}\n{panel.formula}", fontsize=9)
            below.set_xlabel("group size G")
        _words(grid[0, 0])
        for axes in grid[:, 0]:
            axes.set_ylabel("exponent α of the scaling")
        figure.colorbar(survived, ax=grid[0], label="share of seeds in which\nthe weaker outcome survives", aspect=14)
        scale = figure.colorbar(probability, ax=grid[1], label="its mean probability p₂", aspect=14)
        if target < highest:
            scale.ax.axhline(target, color="#D55E00", linewidth=1.5)
            scale.ax.annotate(
                "r₂/(r₁+r₂)", (0, target), (-2, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="right", va="center", fontsize=7, color="#D55E00", rotation=90,
            )  # fmt: skip
    return figure


def data(panels: Sequence[Panel]) -> list[table.Row]:
    """For each cell the share of seeds in which the weaker outcome survives, and its mean probability; the border.

    `wrong` says that the border has the cell on the wrong side. The border's `value` is blank where no exponent
    suffices.
    """
    rows = []
    for panel in panels:
        for (row, column), wrong in np.ndenumerate(panel.wrong):
            cell = {"rule": panel.rule, "group_size": panel.group_sizes[column], "alpha": panel.alphas[row]}
            rows.append(cell | {"measure": "survival_share", "wrong": wrong, "value": panel.survival[row, column]})
            rows.append(cell | {"measure": "mean_p2", "value": panel.probability[row, column]})
        sizes, alphas = panel.border
        rows += table.curve({"rule": panel.rule, "measure": "critical_alpha"}, alphas, group_size=sizes)
    return rows


def _map(axes: Axes, panel: Panel, values: np.ndarray, shades: LinearSegmentedColormap, highest: float) -> QuadMesh:
    axes.set_xscale("log")
    mesh = axes.pcolormesh(
        _edges(np.log(panel.group_sizes), np.exp), _edges(panel.alphas), values, cmap=shades, vmin=0.0, vmax=highest,
        rasterized=True,
    )  # fmt: skip
    ticks = [size for size in (2, 4, 8, 16, 32, 64, 128, 256) if size in panel.group_sizes] or panel.group_sizes
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    return mesh


def _border(axes: Axes, panel: Panel) -> None:
    limits = axes.get_xlim(), axes.get_ylim()
    axes.plot(
        *panel.border, color="#E69F00", linewidth=1.8,
        path_effects=[withStroke(linewidth=3.4, foreground="black")],
    )  # fmt: skip
    axes.set(xlim=limits[0], ylim=limits[1])


def _words(axes: Axes) -> None:
    """What the two sides of the border mean, in the first panel."""
    axes.text(0.96, 0.9, "survives", transform=axes.transAxes, ha="right", color="white")
    axes.text(0.04, 0.06, "dies out", transform=axes.transAxes, ha="left", color="black")


def _edges(centres: np.ndarray, back=lambda values: values) -> np.ndarray:
    """The borders between cells, halfway between their centres, and half a cell further at both ends."""
    between = (centres[1:] + centres[:-1]) / 2
    return back(np.concatenate([[2 * centres[0] - between[0]], between, [2 * centres[-1] - between[-1]]]))
