"""Small multiples: what many objectives do, sorted by the outcomes left at a reward of at least a bar."""

import dataclasses
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ipsrl.figures import style, table
from ipsrl.measures.seeds import mean_over_seeds

# The left scale ends at this multiple of the most outcomes, the right one at this multiple of a share of 1.
_ROOM = 1.08
_OUTCOMES, _REWARD, _PLACEBO, _FAINT = "#0072B2", "#E69F00", "#D55E00", "#EFEFEF"


@dataclasses.dataclass(frozen=True)
class Panel:
    """One objective.

    Attributes:
      name: its specification.
      updates: `[U]`, when it was measured.
      effective_outcomes: `[S, U]`, one row for each seed.
      reward: `[S, U]`, as a share of the best possible reward.
      rank: by outcomes at the end; None where the final reward is too low for them to be compared.
    """

    name: str
    updates: np.ndarray
    effective_outcomes: np.ndarray
    reward: np.ndarray
    rank: int | None


def draw(title: str, panels: Sequence[Panel], bar: float, placebo: float | None) -> Figure:
    """One panel for each objective, in the order given, all on the same axes.

    Effective outcomes are a blue line on the left scale, reward an orange dashed one on the right scale, both with 95 %
    bootstrap bands over seeds (none where there is one seed). The panels of objectives that did not reach the bar are
    grey.

    Args:
      title: what all have in common.
      panels: at least one.
      bar: the share of the best possible reward that had to be reached.
      placebo: the placebo's effective outcomes at the end, drawn in every panel; None where there is no placebo.

    Raises:
      ValueError: there is no panel.
    """
    if not panels:
        raise ValueError("there is nothing to compare: no objective was trained")
    columns = min(len(panels), 4 if len(panels) <= 12 else 6)
    rows = -(-len(panels) // columns)
    top = _ROOM * max(float(np.max(panel.effective_outcomes)) for panel in panels)
    with style.looks():
        figure = Figure(figsize=(max(5.2, 1.9 * columns + 0.9), 1.62 * rows + 1.25), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for position, axes in enumerate(grid.ravel()):
            if position >= len(panels):
                axes.set_visible(False)
                continue
            _draw_panel(axes, panels[position], top, placebo)
            if position + columns >= len(panels):
                axes.tick_params(labelbottom=True)
                axes.set_xlabel("update", fontsize=7.5)
            if position % columns == columns - 1 or position == len(panels) - 1:
                _draw_right_scale(axes, top)
        figure.supylabel("effective outcomes exp(H)", fontsize=9)
        figure.suptitle(title, fontsize=10)
        line = {"color": _OUTCOMES, "linewidth": 1.5}
        entries = [
            Line2D([], [], label="effective outcomes (left)", **line),
            Line2D([], [], label="reward, share of the best possible (right)", **_reward_look()),
        ]
        if placebo is not None:
            entries.append(Line2D([], [], label="effective outcomes of the placebo at the end", **_placebo_look()))
        if any(panel.rank is None for panel in panels):
            below = f"reward at the end below {bar:.2f}: not compared"
            entries.append(Patch(facecolor=_FAINT, edgecolor="0.6", label=below))
        figure.legend(handles=entries, loc="outside lower center", ncols=2 if columns > 3 else 1)
    return figure


def data(panels: Sequence[Panel]) -> list[table.Row]:
    """Effective outcomes, and reward as a share of the best possible one, over the updates of every objective."""
    return [
        row
        for panel in panels
        for measure in ("effective_outcomes", "reward")
        for row in table.curve(
            {"objective": panel.name, "rank": panel.rank, "measure": measure},
            mean_over_seeds(getattr(panel, measure)),
            update=panel.updates,
        )
    ]


def _draw_panel(axes: Axes, panel: Panel, top: float, placebo: float | None) -> None:
    for values, scale, look in (
        (panel.reward, top / _ROOM, _reward_look()),
        (panel.effective_outcomes, 1.0, {"color": _OUTCOMES, "linewidth": 1.5}),
    ):
        interval = mean_over_seeds(scale * np.asarray(values))
        axes.fill_between(panel.updates, interval.low, interval.high, color=look["color"], alpha=0.2, linewidth=0)
        axes.plot(panel.updates, interval.mean, **look)
    if placebo is not None:
        axes.axhline(placebo, zorder=1, **_placebo_look())
    outcomes, reward = (mean_over_seeds(np.asarray(v)[:, -1]) for v in (panel.effective_outcomes, panel.reward))
    name = textwrap.fill(panel.name if panel.rank is None else f"{panel.rank}. {panel.name}", 32)
    axes.set_title(
        f"{name}\n{outcomes.mean:.2f} at reward {reward.mean:.2f}",
        fontsize=7, color="0.4" if panel.rank is None else "black", pad=3,
    )  # fmt: skip
    if panel.rank is None:
        axes.set_facecolor(_FAINT)
    axes.set_ylim(0, top)
    axes.set_xlim(panel.updates[0], panel.updates[-1])
    axes.grid(True)
    axes.tick_params(labelsize=6.5, length=2)
    axes.locator_params(axis="x", nbins=3)


def _draw_right_scale(axes: Axes, top: float) -> None:
    shares = (lambda outcomes: outcomes * _ROOM / top, lambda share: share * top / _ROOM)
    right = axes.secondary_yaxis("right", functions=shares)
    right.set_yticks([0, 0.5, 1])
    right.tick_params(labelsize=6.5, length=2, colors="#A66F00")


def _reward_look() -> dict:
    return {"color": _REWARD, "linewidth": 1.2, "linestyle": (0, (4, 1.5))}


def _placebo_look() -> dict:
    return {"color": _PLACEBO, "linewidth": 1.0, "linestyle": (0, (1, 1.5))}
