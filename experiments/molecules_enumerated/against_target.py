"""Small multiples of what policies have learned: the probability of each outcome over its target."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import SubFigure

from ipsrl.figures import table

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")


def draw(
    figure: SubFigure,
    learned: Mapping[str, np.ndarray],
    target: np.ndarray,
    classes: np.ndarray,
    heading: str,
) -> None:
    """A panel for each policy in two rows, on logarithmic axes; on the grey line both are equal.

    Probabilities below a tenth of the least target lie on the edge.

    Args:
      learned: name of the policy -> `[K]`, its distribution.
      target: `[K]`, positive.
      classes: `[K]` whole numbers, whose at most seven values get different colours.
      heading: what the classes are.
    """
    grid = figure.subplots(2, -(-len(learned) // 2), sharex=True, sharey=True, squeeze=False)
    least, ends = target.min() / 10, np.array([target.min(), target.max()])
    for axes, (name, probs) in zip(grid.flat, learned.items(), strict=False):
        axes.plot(ends, ends, color="0.45", linewidth=1)
        for colour, value in zip(COLOURS, np.unique(classes), strict=False):
            of = classes == value
            axes.plot(
                target[of],
                np.maximum(probs[of], least),
                "o",
                color=colour,
                markersize=3.5,
                label=f"{value}",
            )
        axes.set(xscale="log", yscale="log", ylim=(least / 1.2, 1.5))
        axes.set_title(name.replace("(", "\n(", 1), fontsize=8)
    for axes in grid.flat[len(learned) :]:
        axes.remove()
    grid[0, 0].legend(title=heading, loc="upper left", handletextpad=0.1, borderpad=0)
    figure.supxlabel("target probability", fontsize=9)
    figure.supylabel("probability", fontsize=9)


def rows(
    learned: Mapping[str, np.ndarray],
    target: np.ndarray,
    classes: np.ndarray,
    heading: str,
    names: tuple[str, ...],
) -> list[table.Row]:
    """The numbers of `draw`; `names` are those of the outcomes."""
    columns = {"outcome": names, heading: classes, "target": target}
    return [
        row
        for name, probs in learned.items()
        for row in table.curve({"measure": "probability", "objective": name}, probs, **columns)
    ]
