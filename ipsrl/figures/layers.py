"""Layers of a panel, drawn from tidy records: lines, markers, bars, heat maps and levels."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ipsrl.figures import style, table
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records, interval_of

Styles = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Layer(abc.ABC):
    """Base of everything drawn on a pair of axes.

    Attributes:
      value: the measured value on the vertical axis.
      along: the horizontal axis: `step`, a label or another value.
      by: the label whose values get different colours.
      where: labels that the records must have.
      without: values of `by` that are not shown.
      at_end: whether only the last record of each curve is drawn.
      over: another value, the divisor of `value`.
    """

    value: str
    along: str = "step"
    by: str = "objective"
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    without: tuple[str, ...] = ()
    at_end: bool = False
    over: str = ""

    @property
    def measure(self) -> str:
        """The quantity drawn, and its name in the records of `chosen`."""
        return f"{self.value} / {self.over}" if self.over else self.value

    def chosen(self, records: Records) -> Records:
        """The records that the layer draws."""
        found = records.where(**self.where)
        found = found.at_end() if self.at_end else found
        rows = [row for row in found.having(self.value).rows if row.get(self.by) not in self.without]
        if self.over:
            rows = [row | {self.measure: row[self.value] / row[self.over]} for row in rows if self.over in row]
        return dataclasses.replace(found, rows=rows)

    def series(self, records: Records) -> Iterator[tuple[str, np.ndarray, Interval]]:
        """Each value of `by` with the sorted values of `along`, `[n]`, and the means over seeds at these, `[n]`."""
        for labels, of_name in self.chosen(records).having(self.along).each(self.by):
            groups = {place[self.along]: rows for place, rows in of_name.each(self.along)}
            places = sorted(groups)
            intervals = [interval_over_seeds(groups[place], self.measure) for place in places]
            values = Interval(
                mean=np.array([interval.mean for interval in intervals], float),
                low=np.array([interval.low for interval in intervals], float),
                high=np.array([interval.high for interval in intervals], float),
                seeds=intervals[0].seeds,
            )
            yield str(labels.get(self.by, "")), np.array(places, float), values

    def names(self, records: Records) -> list[str]:
        """The values of `by`, each with its own colour."""
        return [str(name) for name in self.chosen(records).distinct(self.by)]

    @abc.abstractmethod
    def draw(self, axes: Axes, records: Records, styles: Styles) -> None:
        """Draws the layer on the axes."""

    def rows(self, records: Records) -> list[table.Row]:
        """The numbers that the layer draws."""
        return [
            row
            for name, places, values in self.series(records)
            for row in table.curve(
                {"measure": self.measure, self.by: name, **self.where}, values, **{self.along: places}
            )
        ]


def interval_over_seeds(records: Records, value: str) -> Interval:
    """The mean of a value over records with its interval; exact if the records have no seeds."""
    return interval_of(records.column(value), seeded=any("seed" in row for row in records.rows))


@dataclasses.dataclass(frozen=True)
class Line(Layer):
    """Means over seeds as lines with 95 % bands.

    Attributes:
      named: whether lines have their names at the end.
      markers: whether lines have markers, six on each.
      dashed: thin dashed lines, for theory beside measurements.
    """

    named: bool = True
    markers: bool = True
    dashed: bool = False

    def draw(self, axes: Axes, records: Records, styles: Styles) -> None:
        for position, (name, places, values) in enumerate(self.series(records)):
            look = dict(styles[name])
            if self.dashed:
                look |= {"linestyle": (0, (4, 2)), "linewidth": 1.0, "marker": ""}
            elif self.markers:
                every = max(1, len(places) // 6)
                # Markers of different lines are staggered, because lines may coincide.
                look |= {"markevery": ((1 + 2 * position) % every, every), "markerfacecolor": "white"}
            else:
                look |= {"marker": ""}
            axes.plot(places, values.mean, **look)
            if np.isfinite(values.low).all() and values.seeds > 1:
                axes.fill_between(places, values.low, values.high, color=look["color"], alpha=0.25, linewidth=0)

    def ends(self, records: Records, styles: Styles) -> dict[str, tuple[float, float, str]]:
        """Name -> end point and colour of its line, of those that have a finite point."""
        found = {}
        for name, places, values in self.series(records):
            finite = np.flatnonzero(np.isfinite(values.mean))
            if self.named and len(finite):
                last = finite[-1]
                found[name] = float(places[last]), float(values.mean[last]), styles[name]["color"]
        return found


@dataclasses.dataclass(frozen=True)
class LineOverNumbers(Line):
    """Final values of measures whose names end in one of `numbers`, as pass_at_1 and pass_at_4 do, over that number.

    `value` is the part of the name before `_at_`, and `along` what the number is called.
    """

    numbers: tuple[int, ...] = ()

    def chosen(self, records: Records) -> Records:
        final = records.where(**self.where).at_end()
        names = {number: f"{self.value}_at_{number}" for number in self.numbers}
        rows = [
            row | {self.along: number, self.value: row[name]}
            for row in final.rows
            for number, name in names.items()
            if name in row
        ]
        return super().chosen(dataclasses.replace(final, rows=rows))


@dataclasses.dataclass(frozen=True)
class Markers(Layer):
    """Means over seeds as markers with 95 % intervals as bars; thinned to 15 to 30 markers."""

    def draw(self, axes: Axes, records: Records, styles: Styles) -> None:
        for name, places, values in self.series(records):
            look: style.Look = {
                "color": styles[name]["color"],
                "marker": styles[name]["marker"],
                "markerfacecolor": "white",
            }
            some = slice(None, None, max(1, len(places) // 15))
            bars = None
            if values.seeds > 1:
                bars = (values.mean - values.low)[some], (values.high - values.mean)[some]
            axes.errorbar(places[some], values.mean[some], yerr=bars, linestyle="none", capsize=3, elinewidth=1, **look)


@dataclasses.dataclass(frozen=True)
class Bars(Layer):
    """Final values as horizontal bars, one for each value of `by`, with 95 % interval and number."""

    at_end: bool = True

    def draw(self, axes: Axes, records: Records, styles: Styles) -> None:
        names = self.names(records)
        for row, (name, (_, rows)) in enumerate(zip(names, self.chosen(records).each(self.by), strict=True)):
            interval = interval_over_seeds(rows, self.value)
            axes.barh(row, interval.mean, height=0.66, color=styles[name]["color"], alpha=0.8)
            if interval.seeds > 1:
                axes.plot([interval.low, interval.high], [row, row], color="black", linewidth=1.2)
            end = np.fmax(interval.mean, interval.high)
            axes.annotate(
                f"{interval.mean:.3g}", (end, row), (3, 0), textcoords="offset points", va="center", fontsize=8
            )
        if axes.dataLim.xmin >= 0:
            axes.set_xlim(left=0)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(False)

    def rows(self, records: Records) -> list[table.Row]:
        measure = {"measure": f"{self.value} at the end"}
        return [
            measure | labels | table.point(interval_over_seeds(rows, self.value))
            for labels, rows in self.chosen(records).each(self.by)
        ]


@dataclasses.dataclass(frozen=True)
class HeatMap(Layer):
    """Final values over two labels, as colours with numbers in the cells.

    Attributes:
      across: the label on the vertical axis; `along` is on the horizontal one.
      numbers: the format of the numbers in the cells; empty for none.
      low, high: ends of the colour scale; by default the range of the values.
      bar: the heading of the colour scale, which is drawn if cells have no numbers.
      border: a value, constant in each column: the height at which a line crosses that column.
      crossed: records of a cell -> not 0 if the cell is crossed out.
      outlined: (value of `along`, value of `across`) -> whether the cell has an outline.
    """

    at_end: bool = True
    across: str = ""
    numbers: str = ".2f"
    low: float | None = None
    high: float | None = None
    bar: str = ""
    border: str = ""
    crossed: Callable[[Records], float] | None = None
    outlined: Callable[[Any, Any], bool] | None = None

    def names(self, records: Records) -> list[str]:
        return []

    def cells(self, records: Records, of_cell: Callable[[Records], float]) -> tuple[list, list, np.ndarray]:
        """Values on the two axes, and a number for each cell `[across, along]`, NaN without records."""
        rows = self.chosen(records).having(self.along, self.across)
        places, heights = sorted(rows.distinct(self.along)), sorted(rows.distinct(self.across))
        values = np.full((len(heights), len(places)), np.nan)
        for labels, cell in rows.each(self.along, self.across):
            values[heights.index(labels[self.across]), places.index(labels[self.along])] = of_cell(cell)
        return places, heights, values

    def draw(self, axes: Axes, records: Records, styles: Styles) -> None:
        places, heights, values = self.cells(records, lambda cell: cell.column(self.value).mean())
        image = axes.imshow(values, origin="lower", aspect="auto", cmap="cividis", vmin=self.low, vmax=self.high)
        for axis, labels in ((axes.xaxis, places), (axes.yaxis, heights)):
            ticks = range(0, len(labels), -(-len(labels) // 13))
            axis.set_ticks(ticks, [f"{labels[tick]:.3g}" for tick in ticks])
        if self.border:
            self._draw_border(axes, records)
        if self.crossed:
            _, _, crossed = self.cells(records, self.crossed)
            rows, columns = np.nonzero(np.nan_to_num(crossed))
            axes.plot(columns, rows, "x", color="#D55E00", markersize=4, markeredgewidth=1.2)
        for (row, column), value in np.ndenumerate(values):
            if self.numbers and np.isfinite(value):
                colour = "white" if np.asarray(image.norm(value)) < 0.5 else "black"
                axes.text(column, row, f"{value:{self.numbers}}", ha="center", va="center", fontsize=8, color=colour)
            if self.outlined is not None and self.outlined(places[column], heights[row]):
                axes.add_patch(Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, **style.OUTLINE))
        axes.spines[:].set_visible(False)
        axes.grid(False)
        if not self.numbers:
            axes.figure.colorbar(image, ax=axes, shrink=0.85, label=self.bar)

    def _draw_border(self, axes: Axes, records: Records) -> None:
        _, heights, borders = self.cells(records, lambda cell: cell.column(self.border)[0])
        row = np.interp(borders.mean(axis=0), heights, range(len(heights)), left=np.nan, right=np.nan)
        axes.plot(row, color="black", linewidth=3.4)
        axes.plot(row, color="#E69F00", linewidth=1.8)

    def rows(self, records: Records) -> list[table.Row]:
        return [
            {"measure": self.value, **self.where, **labels, **table.point(interval_over_seeds(rows, self.value))}
            for labels, rows in self.chosen(records).having(self.along, self.across).each(self.along, self.across)
        ]


@dataclasses.dataclass(frozen=True)
class Level:
    """A dotted horizontal line with a text beside its left end.

    Attributes:
      height: a number, or a function of the settings.
      text: may contain settings in braces.
    """

    height: float | Callable[[Any], float]
    text: str = ""

    def draw(self, axes: Axes, settings: object) -> None:
        """Draws the layer on the axes."""
        height = self.height if isinstance(self.height, int | float) else self.height(settings)
        axes.axhline(height, color="0.45", linewidth=1, linestyle=(0, (1, 2)), zorder=0)
        text, look = self.text.format_map(vars(settings)), {"va": "bottom", "fontsize": 7.5, "color": "0.35"}
        place: style.Look = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(text, (0.01, height), (0, 2), **place, **look)
