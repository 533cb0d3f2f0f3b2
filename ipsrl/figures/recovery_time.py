"""Time in which a nearly dead outcome comes back, against its probability: finite groups and exact probabilities."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipsrl.figures import style
from ipsrl.measures.seeds import Interval

EXACT = "exact probabilities"


@dataclasses.dataclass(frozen=True)
class Point:
    """One start of sampled training; times are updates x step size.

    Attributes:
      start: p_2.
      sampled: mean over runs.
      mean_field: of the same rule and group size.
      approximation: 1 / (c p_2).
    """

    start: float
    sampled: Interval
    mean_field: float
    approximation: float


@dataclasses.dataclass(frozen=True)
class Curve:
    """One rule in groups of a finite size: what was sampled, and the mean field's `times` `[L]` from `starts` `[L]`."""

    rule: str
    points: Sequence[Point]
    starts: np.ndarray
    times: np.ndarray


def draw(curves: Sequence[Curve], ideal: np.ndarray, group_size: int) -> Figure:
    """Above, times: mean fields and the flow with exact probabilities as lines, means of sampled runs as markers.

    Below, by how much the sampled means, with 95 % intervals, exceed the mean field.

    Args:
      curves: one for each rule, all from the same starts.
      ideal: `[L]`, times of the flow.
      group_size: G.
    """
    styles = style.line_styles([EXACT, *(curve.rule for curve in curves)])
    starts = curves[0].starts
    with style.looks():
        figure = Figure(figsize=(6.4, 5.4))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot(starts, ideal, color=styles[EXACT]["color"], linestyle="-", linewidth=2.4)
        below.axhline(0, color="0.45", linewidth=1)
        for number, curve in enumerate(curves):
            look = styles[curve.rule]
            above.plot(starts, curve.times, color=look["color"], linestyle=look["linestyle"])
            mean, low, high = (
                np.array([getattr(point.sampled, name) for point in curve.points]) for name in ("mean", "low", "high")
            )
            points = {"color": look["color"], "fmt": look["marker"], "markerfacecolor": "white", "capsize": 3}
            first = np.array([point.start for point in curve.points])
            above.errorbar(first, mean, yerr=(mean - low, high - mean), elinewidth=1, **points)
            field = np.array([point.mean_field for point in curve.points])
            beside = first * 1.25 ** ((len(curves) - 1) / 2 - number)
            excess, below_mean, above_mean = mean / field - 1, (mean - low) / field, (high - mean) / field
            below.errorbar(beside, 100 * excess, yerr=100 * np.array([below_mean, above_mean]), elinewidth=1, **points)
        _labels(above, {EXACT: ideal, **{curve.rule: curve.times for curve in curves}}, starts[-1], styles)
        above.set_xscale("log")
        above.set_yscale("log")
        above.invert_xaxis()
        above.set_ylabel("time to recover\n(updates × step size)")
        above.set_title(f"How long a rare outcome takes to come back, groups of {group_size}")
        above.text(
            0.03, 0.96, "lines: mean field; markers: sampled training\n"
            "counts in a group: time ∝ 1/p₂\nexact probabilities: time ∝ ln(1/p₂)",
            transform=above.transAxes, va="top", fontsize=8, color="0.25",
        )  # fmt: skip
        below.set_ylabel("sampled above\nmean field, %")
        below.set_xlabel("probability p₂ of the weaker outcome at the start (rarer to the right)")
        for axes in (above, below):
            axes.grid(True)
    return figure


def _labels(axes: Axes, lines: Mapping[str, np.ndarray], at: float, styles: dict[str, dict]) -> None:
    """Names at the ends of the lines; one place for lines that end within a factor of 1.5 of each other."""
    places: list[tuple[float, list[str]]] = []
    for name, times in sorted(lines.items(), key=lambda line: line[1][-1]):
        if places and times[-1] < 1.5 * places[-1][0]:
            places[-1][1].append(name)
        else:
            places.append((times[-1], [name]))
    for time, names in places:
        axes.annotate(
            ",\n".join(names), (at, time), (7, 0), textcoords="offset points", va="center", fontsize=8,
            color=styles[names[0]]["color"], annotation_clip=False,
        )  # fmt: skip
