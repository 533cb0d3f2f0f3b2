"""One look for all figures: readable in grey, for colour-blind eyes and in print.

Figures are plain `matplotlib.figure.Figure` objects: no pyplot, no global state, no display. A drawing function builds
its figure inside `with looks():` and returns it as a `Drawing`, with the numbers that it shows and, where more than a
line is to be said, a caption; `save` writes all of them.
"""

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from ipsrl.distributed import hosts
from ipsrl.figures import table
from ipsrl.records.json_files import replace_file

Look = dict[str, Any]
"""Keyword arguments of Matplotlib."""

_LOOKS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,  # text stays text in the PDF
}

OUTLINE: Look = {
    "fill": False,
    "edgecolor": "#D55E00",
    "linewidth": 1.6,
    "clip_on": False,
    "path_effects": [withStroke(linewidth=3.2, foreground="white")],
}
"""The frame of a cell, with white beside the line to tell it from dark cells in grey print."""


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure, and the numbers that it shows.

    Attributes:
      figure: built inside `with looks():`.
      rows: a row for each point.
      caption: what a paper would write below the figure.
    """

    figure: Figure
    rows: Sequence[table.Row]
    caption: str = ""


def looks() -> contextlib.AbstractContextManager[None]:
    """The settings under which a figure must be built and saved."""
    return matplotlib.rc_context(_LOOKS)


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Names beside the ends of lines, moved up, or down from the top, where lines end close to each other.

    Args:
      axes: its vertical axis has its scale and its limits.
      ends: name -> where its line ends, x and y, and its colour.
    """
    # In shares of the height of the axes, where linear and logarithmic scales are alike.
    to_share = (axes.transScale + axes.transLimits).transform
    share_of = {name: float(to_share((x, y))[1]) for name, (x, y, _) in ends.items()}
    names = sorted(ends, key=share_of.__getitem__)
    heights, room, high = dict(share_of), 0.085, 1.0
    for below, above in itertools.pairwise(names):
        heights[above] = max(heights[above], heights[below] + room)
    heights[names[-1]] = min(heights[names[-1]], high)
    for above, below in itertools.pairwise(reversed(names)):
        heights[below] = min(heights[below], heights[above] - room)
    for name in names:
        x, y, colour = ends[name]
        look: Look = {"va": "center", "fontsize": 8, "color": colour, "annotation_clip": False}
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "relpos": (0, 0.5)}
        place = 1.03, heights[name]
        axes.annotate(name.replace("(", "\n("), (x, y), place, textcoords="axes fraction", arrowprops=line, **look)


def save(figure: Figure, path: str | Path, data: Sequence[table.Row], caption: str = "", mark: str = "") -> Path:
    """Writes `path`.png (200 dots per inch), whose path it returns, `path`.pdf, and their numbers as `path`.csv.

    The files hold no dates or version numbers: drawing the same data again gives the same bytes. A caption is
    `path`.txt; there is no such file without one. A mark, such as "preset smoke: no claim is decided", is printed small
    and grey in the lower right corner. Of many hosts only the first writes.
    """
    png = Path(f"{path}.png")
    if hosts.is_first():
        png.parent.mkdir(parents=True, exist_ok=True)
        if mark:
            figure.text(0.995, 0.003, mark, ha="right", va="bottom", fontsize=6.5, color="0.5", in_layout=False)
        undated = {"png": {"Software": None}, "pdf": {"Creator": None, "Producer": None, "CreationDate": None}}
        for suffix, metadata in undated.items():
            # Matplotlib's PDF writer ends in an error of its own where a disk is full.
            drawn = io.BytesIO()
            with looks():
                figure.savefig(drawn, format=suffix, dpi=200, metadata=metadata)
            replace_file(Path(f"{path}.{suffix}"), drawn.getvalue())
        table.write(Path(f"{path}.csv"), data)
        if caption:
            replace_file(Path(f"{path}.txt"), f"{caption}\n")
    return png
