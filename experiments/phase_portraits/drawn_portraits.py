"""Phase portraits of objectives, drawn: a triangle of policies over three outcomes for each."""

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from ipsrl.dynamics.portraits import Portrait
from ipsrl.figures import style
from ipsrl.figures.phase_portraits import CORNERS, rows
from ipsrl.figures.style import Drawing, Look

LINES_FOR_ONE_ARROW = 3
"""Lines of the lattice from one arrow to the next: speeds vary over shorter distances than arrows are long."""
SPEED_STEPS = 9
PANEL = 2.0
"""Inches, the side of a panel."""
ALONE: Look = {"linestyle": "none", "markeredgewidth": 0.8}
PATH: Look = {"color": "#D55E00", "linewidth": 1.3, "solid_capstyle": "round"}
SMALL: Look = {"marker": "o", "markersize": 6.5, "markeredgecolor": "black"}
REST: dict[str, Look] = {
    "attracts": {
        "marker": "o",
        "markersize": 8,
        "markerfacecolor": "black",
        "markeredgecolor": "white",
    },
    "saddle": SMALL
    | {"fillstyle": "left", "markerfacecolor": "black", "markerfacecoloralt": "white"},
    "repels": SMALL | {"markerfacecolor": "white"},
    "neutral": SMALL | {"markerfacecolor": "0.6"},
}
START: Look = {
    "marker": "o",
    "markersize": 4.2,
    "color": PATH["color"],
    "markeredgecolor": "white",
    "markeredgewidth": 0.5,
}
RESTING_EDGE: Look = {"color": "0.35", "linewidth": 5, "alpha": 0.9, "solid_capstyle": "round"}
PROPORTIONAL: Look = {
    "marker": "*",
    "markersize": 6.5,
    "markerfacecolor": "#F0E442",
    "markeredgecolor": "black",
}
REFERENCE: Look = {
    "marker": "D",
    "markersize": 4.5,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
}
STOPPED: Look = {
    "marker": "X",
    "markersize": 5.5,
    "markerfacecolor": PATH["color"],
    "markeredgecolor": "white",
}
CAPTION = (
    "A point of a triangle is a policy over three outcomes with rewards r: at a corner it gives one outcome only, in "
    "the middle all three equally often. Arrows show where the mean update of a group of {} answers moves it, shades "
    "how fast. Paths that end at a corner keep one outcome, on an edge two: bad, unless what they lose pays nothing. "
    "Good: paths that end inside, where all outcomes are kept and better ones are more frequent."
)


def draw(
    portraits: Sequence[Portrait], group_size: int, reference: Sequence[float] = ()
) -> Drawing:
    """A block for each reward vector, in it a triangle for each objective.

    Args:
      portraits: in the order of drawing; those of equal rewards make a block.
      group_size: G, for the caption.
      reference: probabilities of the reference policy; marked where given.

    Raises:
      ValueError: there is nothing to draw.
    """
    if not portraits:
        raise ValueError("there is nothing to draw")
    blocks = {p.rewards: [q for q in portraits if q.rewards == p.rewards] for p in portraits}
    most = max(map(len, blocks.values()))
    columns = math.ceil(most / math.ceil(most / 5))
    lines = {rewards: math.ceil(len(block) / columns) for rewards, block in blocks.items()}
    colours, norm = _speed_scale(max(portrait.speed.max() for portrait in portraits))
    width = max(PANEL * columns, 6.9)
    key = _key(portraits, reference)
    key_columns = int((width - 2.9) / 2)
    heights = [0.3 + (PANEL + 0.05) * n for n in lines.values()]
    heights.append(0.2 + 0.19 * max(2, math.ceil(len(key) / key_columns)))
    with style.looks():
        figure = Figure(figsize=(width, sum(heights)))
        *bands, foot = figure.subfigures(
            len(heights), 1, squeeze=False, height_ratios=heights
        ).ravel()
        for band, (rewards, block) in zip(bands, blocks.items(), strict=True):
            band.suptitle(
                f"rewards {', '.join(f'{reward:g}' for reward in rewards)}",
                fontsize=10.5,
                weight="bold",
            )
            panels = band.subplots(lines[rewards], columns, squeeze=False).ravel()
            for axes in panels[len(block) :]:
                axes.set_visible(False)
            for axes, portrait in zip(panels, block, strict=False):
                _draw_portrait(axes, portrait, colours, norm, reference)
        _draw_speed_scale(
            foot,
            colours,
            norm,
            place=(0.35 / width, 1 - 0.22 / heights[-1], 2.1 / width, 0.12 / heights[-1]),
        )
        place: Look = {
            "loc": "upper left",
            "bbox_to_anchor": (2.7 / width, 1.0),
            "borderaxespad": 0.3,
        }
        look: Look = {"fontsize": 8, "handlelength": 1.6, "columnspacing": 1.4}
        foot.legend(handles=key, ncols=key_columns, **place, **look)
    return Drawing(
        figure,
        [row for portrait in portraits for row in rows(portrait)],
        CAPTION.format(group_size),
    )


def _speed_scale(fastest: float) -> tuple[Colormap, BoundaryNorm]:
    """`SPEED_STEPS` steps of 1, 2, 5, 10, down from the fastest."""
    pale = LinearSegmentedColormap.from_list(
        "speed", matplotlib.colormaps["Blues"](np.linspace(0.0, 0.6, 64))
    )
    bounds = np.outer(10.0 ** np.arange(-9, 4), (1, 2, 5)).ravel()
    top = max(np.searchsorted(bounds, fastest), SPEED_STEPS)
    return pale, BoundaryNorm(bounds[top - SPEED_STEPS : top + 1], pale.N, extend="min")


def _draw_portrait(
    axes: Axes,
    portrait: Portrait,
    colours: Colormap,
    norm: BoundaryNorm,
    reference: Sequence[float],
) -> None:
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-0.1, 1.1)
    axes.set_ylim(-0.13, 0.92)
    name, *arguments = portrait.objective.split("(", maxsplit=1)
    axes.set_title(name, fontsize=9.5, pad=11)
    if arguments:
        axes.text(
            0.5,
            1.01,
            f"({arguments[0]}",
            transform=axes.transAxes,
            ha="center",
            fontsize=7.5,
            in_layout=False,
        )
    places: tuple[Look, ...] = (
        {"xytext": (-6, -13)},
        {"xytext": (6, -13), "ha": "right"},
        {"xytext": (7, 0), "va": "center"},
    )
    for corner, reward, number, place in zip(CORNERS, portrait.rewards, "₁₂₃", places, strict=True):
        axes.annotate(
            f"r{number} = {reward:g}", corner, textcoords="offset points", fontsize=7.5, **place
        )
    if portrait.rests_everywhere:
        axes.add_patch(Polygon(CORNERS, facecolor="0.8", edgecolor="0.35", linewidth=1.5))
        axes.text(0.5, 0.1, "every policy rests", ha="center", va="center", fontsize=8)
    else:
        shown = np.maximum(portrait.speed, norm.boundaries[0] * 0.5)
        axes.tricontourf(
            *(portrait.policies @ CORNERS).T,
            shown,
            levels=[0, *norm.boundaries],
            cmap=colours,
            norm=norm,
        )
        axes.add_patch(Polygon(CORNERS, fill=False, edgecolor="0.35", linewidth=0.8))
        _draw_arrows(axes, portrait)
        for edge in portrait.resting_edges:
            axes.plot(*CORNERS[list(edge)].T, **RESTING_EDGE, zorder=2.2)
        for path, finished in zip(portrait.paths, portrait.finished, strict=True):
            line = path @ CORNERS
            axes.plot(
                *line.T,
                **PATH,
                zorder=2.5,
                path_effects=[withStroke(linewidth=2.4, foreground="white")],
            )
            axes.plot(*line[0], **START, zorder=2.6)
            if not finished:
                axes.plot(*line[-1], **STOPPED, markeredgewidth=0.5, zorder=2.8)
    # Attracting ones last, so that they are on top where two are close to each other.
    for point in sorted(portrait.isolated, key=lambda point: point.kind == "attracts"):
        axes.plot(
            *(point.probs @ CORNERS),
            **REST[point.kind],
            markeredgewidth=0.9,
            zorder=3,
            clip_on=False,
        )
    if reference:
        axes.plot(*(np.asarray(reference) @ CORNERS), **REFERENCE, markeredgewidth=0.8, zorder=3.5)
    proportional = np.array(portrait.rewards) / sum(portrait.rewards)
    axes.plot(*(proportional @ CORNERS), **PROPORTIONAL, markeredgewidth=0.5, zorder=4)


def _draw_arrows(axes: Axes, portrait: Portrait) -> None:
    """All of one length, where the policy has all outcomes and moves."""
    policies, intervals = portrait.policies, portrait.intervals
    on_lines = (np.rint(policies * intervals) % LINES_FOR_ONE_ARROW == 0).all(axis=1)
    chosen = on_lines & (policies > 0).all(axis=1) & portrait.moves
    directions = portrait.velocity[chosen] @ CORNERS
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    length = 0.62 * LINES_FOR_ONE_ARROW / intervals
    places, arrows, width = (policies[chosen] @ CORNERS).T, (length * directions).T, 0.12 * length
    units: Look = {"pivot": "middle", "angles": "xy", "scale_units": "xy", "scale": 1}
    look: Look = {"headwidth": 4, "headlength": 4.5, "headaxislength": 4, "color": "0.3"}
    axes.quiver(*places, *arrows, width=width, **units, **look)


def _draw_speed_scale(
    foot: SubFigure, colours: Colormap, norm: BoundaryNorm, place: tuple[float, float, float, float]
) -> None:
    axes = foot.add_axes(place)
    decades = [bound for bound in norm.boundaries if f"{bound:e}".startswith("1.")]
    scale = foot.colorbar(
        ScalarMappable(norm, colours),
        cax=axes,
        orientation="horizontal",
        ticks=decades,
        format="%g",
    )
    axes.minorticks_off()
    scale.set_label("speed |dp/dt|, t = updates × step size", fontsize=8, labelpad=1)
    scale.outline.set_linewidth(0.5)
    axes.tick_params(labelsize=7, length=2, pad=1)


def _key(portraits: Sequence[Portrait], reference: Sequence[float]) -> list[Line2D]:
    """The key of the marks that are drawn."""
    names = {
        "attracts": "rests and attracts",
        "saddle": "rests, attracts from some sides",
        "repels": "rests, but repels",
        "neutral": "rests, to first order indifferent",
    }
    kinds = {point.kind for portrait in portraits for point in portrait.isolated}
    shown = [("expected training from a dot", START | PATH)]
    shown += [(name, REST[kind] | ALONE) for kind, name in names.items() if kind in kinds]
    if any(portrait.resting_edges for portrait in portraits):
        shown.append(("every policy of the edge rests", RESTING_EDGE))
    shown.append(("reward-proportional policy", PROPORTIONAL | ALONE))
    if reference:
        shown.append(("reference policy", REFERENCE | ALONE))
    if not all(finished for portrait in portraits for finished in portrait.finished):
        shown.append(("stopped: the field jumps", STOPPED | ALONE))
    return [Line2D([], [], label=name, **look) for name, look in shown]
