"""Kinds of drawing that most studies need, each described by what it shows and made from tidy records.

    FIGURE = Panels(
        [
            Panel([Line("share"), Level(0.5, "as the rewards")], xlabel="updates", ylabel="share of the first outcome"),
            Panel([Seeds("share")]),
        ]
    )

A panel draws layers on one pair of axes; `Panels` is called with the records and the settings of a study. Texts may
name settings in braces: "groups of {group_size}", and labels of which a panel has one value. Colours and markers follow
a label, `by`, in all panels alike.
"""

import abc
import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ipsrl.figures import style, table
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Record, Records, interval_of

Styles = Mapping[str, Mapping[str, Any]]
Scale = Literal["linear", "log"]


@dataclasses.dataclass(frozen=True)
class Series:
    """One line or row of markers: `n` places, and a mean over seeds at each.

    Attributes:
      name: value of the label `by`.
      places: `[n]`, ascending.
      values: an interval of arrays `[n]`.
    """

    name: str
    places: np.ndarray
    values: Interval


def series_of(records: Records, value: str, along: str, by: str, at_end: bool = False) -> Iterator[Series]:
    """For each value of the label `by`: the means over seeds at each value of `along`, which is a label or a value."""
    chosen = (records.at_end() if at_end else records).having(value, along)
    for labels, rows in chosen.each(by):
        groups: dict[Any, list[Record]] = {}
        for row in rows.rows:
            groups.setdefault(row[along], []).append(row)
        places = sorted(groups)
        intervals = [_interval(groups[place], value) for place in places]
        mean, low, high = (np.array([getattr(i, end) for i in intervals], float) for end in ("mean", "low", "high"))
        seeds = intervals[0].seeds if intervals else 0
        yield Series(str(labels.get(by, "")), np.array(places, float), Interval(mean, low, high, seeds))


def _interval(rows: Sequence[Record], value: str) -> Interval:
    return interval_of(np.array([row[value] for row in rows]), seeded=any("seed" in row for row in rows))


@dataclasses.dataclass(frozen=True)
class Layer(abc.ABC):
    """What is drawn on a pair of axes.

    Attributes:
      value: the measured value on the vertical axis.
      along: what lies on the horizontal axis: `step`, a label or another value.
      by: the label whose values have colours of their own.
      where: labels that the records must have.
      at_end: whether only the last record of each curve counts.
    """

    value: str
    along: str = "step"
    by: str = "objective"
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    at_end: bool = False

    def series(self, records: Records) -> list[Series]:
        return list(series_of(records.where(**self.where), self.value, self.along, self.by, self.at_end))

    def names(self, records: Records) -> list[str]:
        """What has colours of its own here."""
        return [str(name) for name in records.where(**self.where).having(self.value).distinct(self.by)]

    @abc.abstractmethod
    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        """Adds itself to the axes."""

    def rows(self, records: Records) -> list[table.Row]:
        """The numbers that it shows."""
        return [
            row
            for series in self.series(records)
            for row in table.curve(
                {"measure": self.value, self.by: series.name, **self.where},
                series.values,
                **{self.along: series.places},
            )
        ]


@dataclasses.dataclass(frozen=True)
class Line(Layer):
    """Means over seeds as lines with 95 % bands.

    Attributes:
      named: whether names stand at the ends of lines.
      markers: whether points are marked, six of them on each line.
      dashed: a thin dashed line, as for a theory beside what was measured.
      without: values of `by` that have no line.
    """

    named: bool = True
    markers: bool = True
    dashed: bool = False
    without: tuple[str, ...] = ()

    def series(self, records: Records) -> list[Series]:
        return [series for series in super().series(records) if series.name not in self.without]

    def names(self, records: Records) -> list[str]:
        return [name for name in super().names(records) if name not in self.without]

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        for position, series in enumerate(self.series(records)):
            look = dict(styles[series.name])
            if self.dashed:
                look |= {"linestyle": (0, (4, 2)), "linewidth": 1.0, "marker": ""}
            elif self.markers:
                every = max(1, len(series.places) // 6)
                # The first marker of each line is elsewhere, because lines may lie on each other.
                look |= {"markevery": ((1 + 2 * position) % every, every), "markerfacecolor": "white"}
            else:
                look |= {"marker": ""}
            axes.plot(series.places, series.values.mean, **look)
            if np.isfinite(series.values.low).all() and series.values.seeds > 1:
                band = {"color": look["color"], "alpha": 0.25, "linewidth": 0}
                axes.fill_between(series.places, series.values.low, series.values.high, **band)

    def ends(self, records: Records, styles: Styles) -> dict[str, tuple[float, float, str]]:
        """Name -> where its line ends, and its colour."""
        return {
            series.name: (float(series.places[-1]), float(series.values.mean[-1]), styles[series.name]["color"])
            for series in (self.series(records) if self.named else [])
            if len(series.places)
        }


@dataclasses.dataclass(frozen=True)
class Markers(Layer):
    """Means over seeds as markers with bars, their 95 % intervals."""

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        for series in self.series(records):
            look = styles[series.name]
            mean, low, high = series.values.mean, series.values.low, series.values.high
            bars = None if series.values.seeds < 2 else (mean - low, high - mean)
            axes.errorbar(
                series.places, mean, yerr=bars, color=look["color"], marker=look["marker"], linestyle="none",
                markerfacecolor="white", capsize=3, elinewidth=1,
            )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Seeds(Layer):
    """The end of every seed as a marker, in a column for each value of `by`, with the mean as a line and a number."""

    at_end: bool = True

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        names = self.names(records)
        for column, name in enumerate(names):
            chosen = records.where(**self.where)
            ends = np.array([r[self.value] for r in chosen.at_end().having(self.value).rows if str(r[self.by]) == name])
            spread = column + (np.linspace(-0.32, 0.12, len(ends)) if len(ends) > 1 else np.zeros(1) - 0.1)
            look = {"color": styles[name]["color"], "marker": styles[name]["marker"]}
            axes.plot(spread, ends, linestyle="none", markersize=3.5, alpha=0.7, **look)
            mean = float(ends.mean())
            axes.plot([column - 0.36, column + 0.16], [mean, mean], color="black", linewidth=1.2)
            axes.annotate(
                f"{mean:.2f}", (column + 0.16, mean), (3, 0), textcoords="offset points", va="center", fontsize=8.5,
                fontweight="bold", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
        axes.set_xticks(range(len(names)), list(map(in_lines, names)), fontsize=7.5)
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="x", length=0)

    def rows(self, records: Records) -> list[table.Row]:
        ends = records.where(**self.where).at_end().having(self.value).rows
        return [
            {
                "measure": f"{self.value} at the end",
                self.by: row[self.by],
                "seed": row.get("seed"),
                "value": row[self.value],
            }
            for row in ends
        ]


@dataclasses.dataclass(frozen=True)
class Bars(Layer):
    """The end as horizontal bars, one for each value of `by`, each with its 95 % interval and number."""

    at_end: bool = True

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        names = self.names(records)
        for row, name in enumerate(names):
            rows = [r for r in records.where(**self.where).at_end().having(self.value).rows if str(r[self.by]) == name]
            interval = _interval(rows, self.value)
            axes.barh(row, interval.mean, height=0.66, color=styles[name]["color"], alpha=0.8)
            end = interval.mean
            if np.isfinite(interval.low) and interval.seeds > 1:
                axes.plot([interval.low, interval.high], [row, row], color="black", linewidth=1.2)
                end = max(interval.mean, interval.high)
            axes.annotate(
                f"{interval.mean:.3g}", (end, row), (3, 0), textcoords="offset points", va="center", fontsize=8
            )
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(False)

    def rows(self, records: Records) -> list[table.Row]:
        return [
            {"measure": f"{self.value} at the end", **labels, **table.point(_interval(rows.at_end().rows, self.value))}
            for labels, rows in records.where(**self.where).having(self.value).each(self.by)
        ]


@dataclasses.dataclass(frozen=True)
class HeatMap(Layer):
    """A value at the end over two labels, as colours with the numbers written into the cells.

    Attributes:
      across: the label on the vertical axis; `along` is on the horizontal one.
      numbers: the format of the numbers in the cells; empty for none.
      low, high: ends of the colour scale; those of the values by default.
      outlined: which cells have an outline, by their values of `along` and `across`.
    """

    at_end: bool = True
    across: str = ""
    numbers: str = ".2f"
    low: float | None = None
    high: float | None = None
    outlined: Callable[[Any, Any], bool] | None = None

    def names(self, records: Records) -> list[str]:
        return []

    def cells(self, records: Records) -> tuple[list, list, np.ndarray]:
        """Values on the two axes, and `[across, along]`, NaN where there is no record."""
        rows = records.where(**self.where).at_end().having(self.value, self.along, self.across)
        places, heights = sorted(rows.distinct(self.along)), sorted(rows.distinct(self.across))
        values = np.full((len(heights), len(places)), np.nan)
        for labels, cell in rows.each(self.along, self.across):
            mean = cell.column(self.value).mean()
            values[heights.index(labels[self.across]), places.index(labels[self.along])] = mean
        return places, heights, values

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        places, heights, values = self.cells(records)
        image = axes.imshow(values, origin="lower", aspect="auto", cmap="cividis", vmin=self.low, vmax=self.high)
        axes.set_xticks(range(len(places)), [f"{place:g}" for place in places])
        axes.set_yticks(range(len(heights)), [f"{height:g}" for height in heights])
        for (row, column), value in np.ndenumerate(values):
            if self.numbers and np.isfinite(value):
                dark = image.norm(value) < 0.5
                colour = "white" if dark else "black"
                axes.text(column, row, f"{value:{self.numbers}}", ha="center", va="center", fontsize=8, color=colour)
            if self.outlined is not None and self.outlined(places[column], heights[row]):
                axes.add_patch(Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, **style.OUTLINE))
        axes.spines[:].set_visible(False)
        axes.grid(False)
        if not self.numbers:
            axes.figure.colorbar(image, ax=axes, shrink=0.85)

    def rows(self, records: Records) -> list[table.Row]:
        chosen = records.where(**self.where).having(self.value, self.along, self.across)
        return [
            {"measure": self.value, **self.where, **labels, **table.point(_interval(rows.at_end().rows, self.value))}
            for labels, rows in chosen.each(self.along, self.across)
        ]


@dataclasses.dataclass(frozen=True)
class Level:
    """A dotted horizontal line with a text beside its right end.

    Attributes:
      height: where it is, or a function of the settings.
      text: may name settings.
    """

    height: float | Callable[[Any], float]
    text: str = ""

    def at(self, settings: Any) -> float:
        return self.height(settings) if callable(self.height) else self.height


@dataclasses.dataclass(frozen=True)
class Panel:
    """Layers on one pair of axes.

    Attributes:
      layers: what is drawn, each above the one before.
      title, xlabel, ylabel: texts, which may name settings.
      xscale, yscale: linear or log.
      xlim, ylim: limits of the axes.
      reversed: whether the horizontal axis falls from left to right.
      width: relative to the other panels.
    """

    layers: Sequence[Layer | Level]
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    xscale: Scale = "linear"
    yscale: Scale = "linear"
    xlim: tuple[float | None, float | None] = (None, None)
    ylim: tuple[float | None, float | None] = (None, None)
    reversed: bool = False
    width: float = 1.0

    @property
    def measured(self) -> list[Layer]:
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: Any) -> None:
        known = {name: records.distinct(name) for name in records.labels}
        words = vars(settings) | {name: values[0] for name, values in known.items() if len(values) == 1}
        axes.grid(True)
        axes.set_xscale(self.xscale)
        axes.set_yscale(self.yscale)
        for layer in self.measured:
            layer.draw(axes, records, styles, settings)
        if self.xlim != (None, None):
            axes.set_xlim(*self.xlim)
        if self.ylim != (None, None):
            axes.set_ylim(*self.ylim)
        if self.reversed:
            axes.invert_xaxis()
        axes.set_title(textwrap.fill(self.title.format_map(words), 52, break_on_hyphens=False))
        axes.set_xlabel(self.xlabel.format_map(words))
        axes.set_ylabel(self.ylabel.format_map(words))
        for level in self.layers:
            if isinstance(level, Level):
                axes.axhline(level.at(settings), color="0.45", linewidth=1, linestyle=(0, (1, 2)), zorder=0)
                axes.annotate(
                    level.text.format_map(words), (0.01, level.at(settings)), (0, 2), va="bottom", fontsize=7.5,
                    xycoords=("axes fraction", "data"), textcoords="offset points", color="0.35",
                )  # fmt: skip
        ends = {}
        for layer in self.measured:
            if isinstance(layer, Line):
                ends |= layer.ends(records, styles)
        if ends:
            style.label_ends(axes, next(iter(ends.values()))[0], {name: end[1:] for name, end in ends.items()})


@dataclasses.dataclass(frozen=True)
class Panels:
    """Panels side by side: a figure of a study.

    Attributes:
      panels: from left to right.
      size: width and height in inches of a row; by default as many panels want.
      each: a label, for each value of which there is a row of these panels.
    """

    panels: Sequence[Panel]
    size: tuple[float, float] | None = None
    each: str = ""

    def __call__(self, records: Records, settings: Any) -> Drawing:
        """Draws the records.

        Raises:
          ValueError: there are more names than a figure can tell apart.
        """
        layers = [layer for panel in self.panels for layer in panel.measured]
        styles = style.line_styles(name for layer in layers for name in layer.names(records))
        parts = list(records.each(self.each)) if self.each else [({}, records)]
        width, height = self.size or (1.5 + 4.2 * len(self.panels), 3.7)
        with style.looks():
            figure = Figure(figsize=(width, height * len(parts)))
            widths = [panel.width for panel in self.panels]
            grid = figure.subplots(len(parts), len(self.panels), width_ratios=widths, squeeze=False)
            for (_, part), row in zip(parts, grid, strict=True):
                for panel, axes in zip(self.panels, row, strict=True):
                    panel.draw(axes, part, styles, settings)
        return Drawing(figure, [labels | row for labels, part in parts for layer in layers for row in layer.rows(part)])


def in_lines(name: str) -> str:
    """A specification with a line for each argument."""
    return name.replace("(", "\n(").replace(", ", ",\n").replace(") ", ")\n")
