"""Text tasks: how many outcomes are left during training, and what is recovered at its end."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ipsrl.figures import style, table
from ipsrl.measures.seeds import mean_over_seeds


@dataclasses.dataclass(frozen=True)
class TaskResult:
    """The runs of all objectives on one task, one row for each seed.

    Attributes:
      task: its name.
      updates: `[U]`, the updates at which the outcomes were counted.
      effective_outcomes: objective -> `[S, U]`, exp(entropy) of the valid outcomes among the answers to a prompt, mean
        over prompts.
      answers: number of answers to each prompt in which outcomes were counted.
      recovery, validity: objective -> `[S]`, at the end. They may hold more rows than `effective_outcomes` (the prior).
      ceiling: mean over prompts of the recovery that uniform independent samples reach.
    """

    task: str
    updates: np.ndarray
    effective_outcomes: Mapping[str, np.ndarray]
    answers: int
    recovery: Mapping[str, np.ndarray]
    validity: Mapping[str, np.ndarray]
    ceiling: float


def draw(results: Sequence[TaskResult]) -> Figure:
    """One column for each task: above, effective outcomes over training; below, recovery and validity at the end.

    Bands and bars are 95 % bootstrap intervals over seeds (none where there is one seed); filled markers are recovery,
    hollow ones validity; the dashed line is the ceiling of independent samples.
    """
    trained = [name for result in results for name in result.effective_outcomes]
    styles = style.line_styles([*trained, *(name for result in results for name in result.recovery)])
    with style.looks():
        figure = Figure(figsize=(1.7 + 4.0 * len(results), 3.2 + 0.6 + 0.34 * len(styles)))
        grid = figure.subplots(2, len(results), squeeze=False, height_ratios=(3, 0.6 + 0.34 * len(styles)))
        for column, result in enumerate(results):
            _draw_training(grid[0, column], result, styles)
            _draw_end(grid[1, column], result, styles)
        grid[0, 0].set_ylabel(f"effective valid outcomes exp(H)\nin {results[0].answers} answers to a prompt")
        for axes in grid[1, 1:]:
            axes.set_yticklabels([])
        grey = {"color": "0.35", "marker": "o", "linestyle": "none"}
        entries = [
            Line2D([], [], label="recovery", **grey),
            Line2D([], [], label="validity", markerfacecolor="white", **grey),
            Line2D([], [], label="ceiling of independent samples", color="0.35", linestyle="--", linewidth=1.2),
        ]
        figure.legend(handles=entries, loc="outside lower center", ncols=3)
    return figure


def data(results: Sequence[TaskResult]) -> list[table.Row]:
    """Effective outcomes over the updates; recovery, validity and the ceiling of recovery at the end."""
    rows = []
    for result in results:
        for name, values in result.effective_outcomes.items():
            series = {"task": result.task, "objective": name, "measure": "effective_outcomes"}
            rows += table.curve(series, mean_over_seeds(values), update=result.updates)
        for measure in ("recovery", "validity"):
            for name, values in getattr(result, measure).items():
                series = {"task": result.task, "objective": name, "measure": measure}
                rows.append(series | table.point(mean_over_seeds(values)))
        ceiling = {"task": result.task, "objective": "ceiling of independent samples", "measure": "recovery"}
        rows.append(ceiling | {"value": result.ceiling})
    return rows


def _draw_training(axes: Axes, result: TaskResult, styles: dict[str, dict]) -> None:
    ends = {}
    for name, values in result.effective_outcomes.items():
        look = styles[name] | {"marker": ""}
        interval = mean_over_seeds(values)
        axes.fill_between(result.updates, interval.low, interval.high, color=look["color"], alpha=0.2, linewidth=0)
        axes.plot(result.updates, interval.mean, **look)
        ends[name] = interval.mean[-1], look["color"]
    axes.set_title(textwrap.fill(result.task, 48), fontsize="medium")
    axes.set_xlabel("update")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(True)
    style.label_ends(axes, result.updates[-1], ends)


def _draw_end(axes: Axes, result: TaskResult, styles: dict[str, dict]) -> None:
    for row, (name, look) in enumerate(styles.items()):
        for values, offset, filled in ((result.recovery, -0.14, True), (result.validity, 0.14, False)):
            if name not in values:
                continue
            interval = mean_over_seeds(values[name])
            reach = None if interval.seeds == 1 else [[interval.mean - interval.low], [interval.high - interval.mean]]
            axes.errorbar(
                [interval.mean], [row + offset], xerr=reach, fmt=look["marker"], color=look["color"], capsize=2.5,
                markerfacecolor=look["color"] if filled else "white", elinewidth=1.4,
            )  # fmt: skip
    axes.axvline(result.ceiling, color="0.35", linestyle="--", linewidth=1.2, zorder=0)
    axes.set_yticks(range(len(styles)), list(styles))
    axes.set_ylim(len(styles) - 0.5, -0.5)
    axes.set_xlim(0, 1.03)
    axes.set_xlabel("share")
    axes.grid(True, axis="x")
