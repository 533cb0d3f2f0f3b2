"""Time in which a nearly dead outcome comes back, against its probability: finite groups and exact probabilities."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipsrl.figures import style, table
from ipsrl.measures.seeds import Interval

EXACT = "exact probabilities"


@dataclasses.dataclass(frozen=True)
class Curve:
    """One rule in groups of a finite size; times are updates x step size.

    Attributes:
      rule: its name.
      sampled_starts: `[P]`, p_2 at the start of sampled runs, falling.
      sampled: P mean times.
      mean_field: `[P]`, from the same starts.
      starts: `[L]`, falling: the line.
      times: `[L]`, of the mean field.
    """

    rule: str
    sampled_starts: np.ndarray
    sampled: Sequence[Interval]
    mean_field: np.ndarray
    starts: np.ndarray
    times: np.ndarray


def draw(curves: Sequence[Curve], ideal: np.ndarray, group_size: int, recovered: float) -> Figure:
    """Above, times: mean fields and the flow with exact probabilities as lines, means of sampled runs as markers.

    Below, by how much the sampled means, with 95 % intervals, exceed the mean field.

    Args:
      curves: one for each rule, all from the same starts.
      ideal: `[L]`, times of the flow.
      group_size: G.
      recovered: p_2 at which an outcome has recovered.
    """
    styles = style.line_styles([EXACT, *(curve.rule for curve in curves)])
    starts = curves[0].starts
    with style.looks():
        figure = Figure(figsize=(6.6, 5.8))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot(starts, ideal, color=styles[EXACT]["color"], linestyle="-", linewidth=2.4)
        below.axhline(0, color="0.45", linewidth=1)
        for number, curve in enumerate(curves):
            look = styles[curve.rule]
            above.plot(starts, curve.times, color=look["color"], linestyle=look["linestyle"])
            mean, low, high = (
                np.array([getattr(interval, name) for interval in curve.sampled]) for name in ("mean", "low", "high")
            )
            points = {"color": look["color"], "fmt": look["marker"], "markerfacecolor": "white", "capsize": 3}
            first, field = curve.sampled_starts, curve.mean_field
            above.errorbar(first, mean, yerr=(mean - low, high - mean), elinewidth=1, **points)
            beside = first * 1.25 ** ((len(curves) - 1) / 2 - number)
            excess, below_mean, above_mean = mean / field - 1, (mean - low) / field, (high - mean) / field
            below.errorbar(beside, 100 * excess, yerr=100 * np.array([below_mean, above_mean]), elinewidth=1, **points)
        _labels(above, {EXACT: ideal, **{curve.rule: curve.times for curve in curves}}, starts[-1], styles)
        above.set_xscale("log")
        above.set_yscale("log")
        above.set_ylabel("time to recover\n(updates × step size)")
        above.set_title(
            "Inverse probability scaling: how long a rare outcome takes to come back\n"
            f"to p₂ = {recovered:.4f}, half of its probability at rest without a baseline",
        )
        above.text(
            0.03, 0.97, f"counts in groups of {group_size}: time ∝ 1/p₂\nexact probabilities: time ∝ ln(1/p₂)\n"
            f"lines: mean field; markers: means of {curves[0].sampled[0].seeds}\nsampled runs, bars: 95 % intervals",
            transform=above.transAxes, va="top", fontsize=8, color="0.25",
        )  # fmt: skip
        for axes in (above, below):
            axes.axvspan(curves[0].sampled_starts.min() / 2, starts[-1], color="0.94", zorder=0)
        below.text(
            np.sqrt(curves[0].sampled_starts.min() / 2 * starts[-1]), 0.5, "theory only",
            transform=below.get_xaxis_transform(), ha="center", va="center", fontsize=8, color="0.35",
        )  # fmt: skip
        above.set_xlim(starts[0] * 1.6, starts[-1])
        below.set_ylabel("sampled above\nmean field, %")
        below.set_xlabel("probability p₂ of the weaker outcome at the start (rarer to the right)")
        for axes in (above, below):
            axes.grid(True)
    return figure


def data(curves: Sequence[Curve], ideal: np.ndarray) -> list[table.Row]:
    """Times, in updates x step size, against p_2 at the start: sampled, by the mean field, by exact probabilities."""
    rows = table.curve({"rule": EXACT, "measure": "time_of_the_flow"}, ideal, p2_at_start=curves[0].starts)
    for curve in curves:
        starts, times = np.append(curve.sampled_starts, curve.starts), np.append(curve.mean_field, curve.times)
        rows += [
            {"rule": curve.rule, "measure": "time_sampled", "p2_at_start": start} | table.point(time)
            for start, time in zip(curve.sampled_starts, curve.sampled, strict=True)
        ]
        rows += table.curve({"rule": curve.rule, "measure": "time_of_the_mean_field"}, times, p2_at_start=starts)
    return rows


def _labels(axes: Axes, lines: Mapping[str, np.ndarray], at: float, styles: dict[str, dict]) -> None:
    """Names at the ends of the lines; those that end within a factor of 1.5 of each other above one another."""
    places: list[tuple[float, list[str]]] = []
    for name, times in sorted(lines.items(), key=lambda line: line[1][-1]):
        if places and times[-1] < 1.5 * places[-1][0]:
            places[-1][1].append(name)
        else:
            places.append((times[-1], [name]))
    for time, names in places:
        for number, name in enumerate(names):
            axes.annotate(
                name, (at, time), (7, 11 * (number - (len(names) - 1) / 2)), textcoords="offset points", va="center",
                fontsize=8, color=styles[name]["color"], annotation_clip=False,
            )  # fmt: skip
