"""Diversity that training keeps, and the rate at which it is restored, as outcomes outnumber the samples of a group."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from ipsrl.figures import style, table
from ipsrl.measures.seeds import Interval, mean_over_seeds


def draw(
    num_outcomes: Sequence[int],
    group_size: int,
    passes: int,
    start: Sequence[float],
    kept: Mapping[str, Sequence[np.ndarray]],
    rates: Mapping[str, Sequence[Interval]],
    closed_forms: Mapping[str, tuple[np.ndarray, np.ndarray]],
    asymptote: tuple[np.ndarray, np.ndarray, str],
) -> Figure:
    """Left what training keeps against K, right the rate at which a rule restores diversity, on two log axes.

    Args:
      num_outcomes: n values of K, ascending.
      group_size: G.
      passes: average number of samples of each outcome that training took.
      start: n values, effective outcomes / K before training.
      kept: objective -> n arrays `[S]`, the same after training.
      rates: rule -> n measured rates, relative to the ideal rule.
      closed_forms: rule -> values of K, ascending, and rates there.
      asymptote: values of K, ascending, rates there, and the formula.

    Raises:
      ValueError: an objective or a rule has no value for one of the K.
    """
    for name, values in (*kept.items(), *rates.items(), ("the start", start)):
        if len(values) != len(num_outcomes):
            raise ValueError(f"{name} has {len(values)} values, there must be one for each of {len(num_outcomes)} K")
    styles = style.line_styles([*kept, *rates])
    with style.looks():
        figure = Figure(figsize=(10.8, 4.0))
        left, right = figure.subplots(1, 2)
        _draw_kept(left, num_outcomes, start, kept, styles)
        left.set_title(f"Diversity after {passes} samples of each outcome")
        _draw_rates(right, num_outcomes, rates, closed_forms, styles)
        right.plot(*asymptote[:2], color="0.45", linewidth=1, linestyle=(0, (1, 2)), label=asymptote[2])
        right.legend(loc="lower left")
        right.set_title("How fast equal shares are restored")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(list(num_outcomes)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticklabels([str(count) for count in num_outcomes])
            axes.set_xlabel(f"number of equally good outcomes K (groups of {group_size} samples)")
            axes.grid(True)
    return figure


def data(
    num_outcomes: Sequence[int],
    start: Sequence[float],
    kept: Mapping[str, Sequence[np.ndarray]],
    rates: Mapping[str, Sequence[Interval]],
    closed_forms: Mapping[str, tuple[np.ndarray, np.ndarray]],
    asymptote: tuple[np.ndarray, np.ndarray, str],
) -> list[table.Row]:
    """Effective outcomes / K, and restoring rates relative to the ideal rule, against K; arguments as in `draw`."""
    diversity, rate = "effective_outcomes_over_K", "restoring_rate"
    rows = table.curve({"measure": diversity, "series": "before training"}, start, num_outcomes=num_outcomes)
    for name, values in kept.items():
        series = {"measure": diversity, "series": name}
        rows += [
            series | {"num_outcomes": count} | table.point(mean_over_seeds(seeds))
            for count, seeds in zip(num_outcomes, values, strict=True)
        ]
    for name, measured in rates.items():
        series = {"measure": rate, "series": f"{name}, measured"}
        rows += [
            series | {"num_outcomes": count} | table.point(interval)
            for count, interval in zip(num_outcomes, measured, strict=True)
        ]
    for name, (sizes, values) in closed_forms.items():
        rows += table.curve({"measure": rate, "series": f"{name}, closed form"}, values, num_outcomes=sizes)
    sizes, values, formula = asymptote
    return rows + table.curve({"measure": rate, "series": formula}, values, num_outcomes=sizes)


def _draw_kept(
    axes: Axes,
    num_outcomes: Sequence[int],
    start: Sequence[float],
    kept: Mapping[str, Sequence[np.ndarray]],
    styles: Mapping[str, dict],
) -> None:
    axes.plot(num_outcomes, start, color="0.45", linewidth=1, linestyle=(0, (1, 2)))
    labels = {"before training": (start[-1], "0.35")}
    for name, values in kept.items():
        intervals = [mean_over_seeds(seeds) for seeds in values]
        mean, low, high = (np.array([getattr(i, key) for i in intervals]) for key in ("mean", "low", "high"))
        axes.fill_between(num_outcomes, low, high, color=styles[name]["color"], alpha=0.25, linewidth=0)
        axes.plot(num_outcomes, mean, markerfacecolor="white", **styles[name])
        labels[name] = (mean[-1], styles[name]["color"])
    axes.axhline(1.0, color="0.45", linewidth=0.8)
    axes.set_ylim(0, 1.06)
    style.label_ends(axes, num_outcomes[-1], labels)
    axes.set_ylabel("effective outcomes / K   (1 = all equally likely)")


def _draw_rates(
    axes: Axes,
    num_outcomes: Sequence[int],
    rates: Mapping[str, Sequence[Interval]],
    closed_forms: Mapping[str, tuple[np.ndarray, np.ndarray]],
    styles: Mapping[str, dict],
) -> None:
    axes.set_yscale("log")
    for name, measured in rates.items():
        look = styles[name]
        sizes, values = closed_forms[name]
        axes.plot(sizes, values, color=look["color"], linestyle=look["linestyle"])
        mean, low, high = (np.array([getattr(rate, key) for rate in measured]) for key in ("mean", "low", "high"))
        axes.errorbar(
            num_outcomes, mean, (mean - low, high - mean), color=look["color"], marker=look["marker"],
            linestyle="none", markerfacecolor="white", capsize=3,
        )  # fmt: skip
        axes.annotate(
            name.replace("(", "\n("), (sizes[-1], values[-1]), (8, 0), textcoords="offset points", va="center",
            fontsize=8, color=look["color"], annotation_clip=False,
        )  # fmt: skip
    axes.errorbar([], [], [], color="0.2", marker="o", linestyle="none", markerfacecolor="white", capsize=3,
                  label="measured, 95 % interval")  # fmt: skip
    axes.plot([], [], color="0.2", label="closed form")
    axes.set_ylim(top=4)
    axes.set_ylabel("restoring rate   (1 = ideal, infinitely many samples)")
