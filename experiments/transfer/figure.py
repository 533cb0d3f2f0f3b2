"""Whether one level of training foretells another: a matrix of rank correlations, and the ranks that they compare."""

import itertools

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from experiments.transfer.levels import WHEN, correlation, outcomes
from experiments.transfer.rank_correlation import TIE
from ipsrl.figures import style, table
from ipsrl.figures.style import Drawing
from ipsrl.records.equal_reward import BAR
from ipsrl.records.tidy import NotRecorded, Records

CAPTION = """\
Left: Spearman's rank correlation over objectives of the effective right outcomes on two levels: above the diagonal \
where the reward first reaches {bar:g} of the best possible one, below it at the end of training, of objectives that \
are at {bar:g} or more there. Right: ranks at the bar, the most outcomes on top, of the objectives that reach it on \
every level; coloured by the rank on the first one."""


def draw(records: Records) -> Drawing:
    """The matrix and the ranks, levels in the order of the records.

    Raises:
      NotRecorded: on no two levels enough objectives reach the bar.
    """
    levels = records.distinct("level")
    rows: list[table.Row] = []
    matrix = np.full((len(levels), len(levels)), np.nan)
    for (i, first), (j, second) in itertools.combinations(enumerate(levels), 2):
        for when, place in zip(WHEN, ((i, j), (j, i)), strict=True):
            try:
                found = correlation(records, first, second, when)
            except NotRecorded:
                continue
            matrix[place] = found.interval.mean
            pair = {"first": first, "second": second, "when": when, "objectives": found.subjects}
            rows.append(pair | table.point(found.interval))
    if not rows:
        raise NotRecorded(f"on no two levels enough objectives reach the reward {BAR:g}")
    with style.looks():
        figure = Figure(figsize=(13, 5.4))
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
        _matrix(left, matrix, levels)
        rows += _ranks(right, records, levels)
    return Drawing(figure, rows, CAPTION.format(bar=BAR))


def _matrix(axes: Axes, matrix: np.ndarray, levels: list[str]) -> None:
    image = axes.imshow(matrix, cmap="cividis", vmin=-1, vmax=1)
    names = [level.replace("_", " ") for level in levels]
    axes.set_xticks(range(len(levels)), names, rotation=40, ha="right")
    axes.set_yticks(range(len(levels)), names)
    for (row, column), value in np.ndenumerate(matrix):
        if np.isfinite(value):
            colour = "white" if image.norm(value) < 0.5 else "black"
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour
            )
    axes.spines[:].set_visible(False)
    axes.set_title("rank correlation: above the diagonal at the bar, below it at the end")


def _ranks(axes: Axes, records: Records, levels: list[str]) -> list[table.Row]:
    found = {level: outcomes(records.where(level=level), WHEN[0]) for level in levels}
    drawn = [level for level in levels if found[level]] or levels
    names = [name for name in found[drawn[0]] if all(name in found[level] for level in drawn)]
    means = np.array([[np.mean(found[level][name]) for level in drawn] for name in names])
    means = means.reshape(-1, len(drawn))
    ranks = rankdata(-np.round(means, TIE), axis=0)
    colours = matplotlib.colormaps["cividis"](np.linspace(0, 0.9, len(names)))
    # Ties at the last level get lines of their own.
    order = np.argsort(np.lexsort((ranks[:, 0], ranks[:, -1])))
    for name, of_objective, place in zip(names, ranks, order, strict=True):
        colour, last = colours[int(of_objective[0]) - 1], (len(drawn) - 1, of_objective[-1])
        axes.plot(of_objective, color=colour, marker="o", markeredgecolor="white")
        axes.annotate(
            name,
            last,
            (len(drawn) - 0.8, place + 1),
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "0.7", "linewidth": 0.6},
        )
    axes.set_xticks(range(len(drawn)), [level.replace("_", "\n") for level in drawn], fontsize=7.5)
    axes.set(
        xlim=(-0.2, 1.5 * len(drawn)), yticks=range(1, len(names) + 1), ylabel="rank at the bar"
    )
    axes.invert_yaxis()
    return [
        {"first": level, "when": WHEN[0], "objective": name, "rank": rank, "value": mean}
        for column, level in enumerate(drawn)
        for name, rank, mean in zip(names, ranks[:, column], means[:, column], strict=True)
    ]
