"""The log-ratio of two outcomes against time: sampled training over the closed-form flow."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipsrl.figures import style, table


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One objective, as theory and as sampled training; all arrays are `[T]` and belong to the same times.

    Attributes:
      name: the objective.
      times: updates x step size.
      closed_form: ln(p_1 / p_2) of the flow.
      sampled_mean: mean of ln(p_1 / p_2) over seeds.
      standard_error: of that mean.
    """

    name: str
    times: np.ndarray
    closed_form: np.ndarray
    sampled_mean: np.ndarray
    standard_error: np.ndarray


def draw(comparisons: Sequence[Comparison], rewards: tuple[float, float]) -> Figure:
    """Above, the closed forms as lines and the sampled means as markers with a band of 3 standard errors.

    Below, their difference in standard errors, where the band is the same for all: this shows deviations that are
    smaller than a line is wide. Points without a standard error (all seeds equal) are left out there.

    Args:
      comparisons: one for each objective.
      rewards: r_1 and r_2, both positive; the reward-proportional law has the log-ratio ln(r_1 / r_2).
    """
    styles = style.line_styles(comparison.name for comparison in comparisons)
    with style.looks():
        figure = Figure(figsize=(6.4, 4.9))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for comparison in comparisons:
            _draw_one(above, below, comparison, styles[comparison.name])
        target = np.log(rewards[0] / rewards[1])
        above.axhline(target, color="0.45", linewidth=1, linestyle=(0, (1, 2)), zorder=0)
        above.annotate(
            "reward-proportional: ln(r₁/r₂)", (1, target), (-2, 3), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", va="bottom", fontsize=8, color="0.35",
        )  # fmt: skip
        above.set_title(
            f"Two outcomes with rewards {rewards[0]:g} and {rewards[1]:g}\n"
            "lines: closed form; markers: mean of seeds, bands ± 3 SE"
        )
        above.set_ylabel("log-ratio ln(p₁/p₂)")
        below.axhspan(-3, 3, color="0.9", zorder=0)
        below.axhline(0, color="0.45", linewidth=0.8)
        below.set_ylabel("deviation\n(SE)")
        below.set_xlabel("time t = updates × step size")
        for axes in (above, below):
            axes.grid(True)
            axes.margins(x=0.02)
        ends = {c.name: (c.sampled_mean[-1], styles[c.name]["color"]) for c in comparisons}
        style.label_ends(above, comparisons[0].times[-1], ends)
    return figure


def data(comparisons: Sequence[Comparison]) -> list[table.Row]:
    """ln(p_1 / p_2) against time: the closed form, the mean over seeds and its standard error."""
    return [
        row
        for comparison in comparisons
        for name in ("closed_form", "sampled_mean", "standard_error")
        for row in table.curve(
            {"objective": comparison.name, "log_ratio": name}, getattr(comparison, name), time=comparison.times
        )
    ]


def _draw_one(above: Axes, below: Axes, comparison: Comparison, look: dict) -> None:
    line = {"color": look["color"], "linestyle": look["linestyle"]}
    every = max(1, len(comparison.times) // 15)
    points = {"color": look["color"], "marker": look["marker"], "linestyle": "none", "markevery": every}
    band = 3 * comparison.standard_error
    mean = comparison.sampled_mean
    above.fill_between(comparison.times, mean - band, mean + band, color=look["color"], alpha=0.25, linewidth=0)
    above.plot(comparison.times, comparison.closed_form, **line)
    above.plot(comparison.times, mean, markerfacecolor="white", **points)
    known = comparison.standard_error > 0
    deviation = (mean - comparison.closed_form)[known] / comparison.standard_error[known]
    below.plot(comparison.times[known], deviation, **(points | line | {"linewidth": 1.2, "markersize": 3.5}))
