"""Kinds of figures that most studies need, declared by their content and drawn from tidy records.

    FIGURE = Panels(
        [
            Panel([Line("share"), Level(0.5, "as the rewards")], xlabel="updates", ylabel="share of the first outcome"),
            Panel([Seeds("share")]),
        ]
    )

A panel draws layers on one pair of axes; `Panels` is called with the records and the settings of a study. Texts may
contain settings in braces, as in "groups of {group_size}", and labels with one value in the panel. Colours and markers
follow the label `by`, the same in all panels.
"""

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipsrl.figures import style
from ipsrl.figures.layers import Layer, Level, Line, Styles
from ipsrl.figures.style import Drawing
from ipsrl.records.line_styles import line_styles
from ipsrl.records.tidy import NotRecorded, Records


@dataclasses.dataclass(frozen=True)
class Panel:
    """Layers on one pair of axes.

    Attributes:
      layers: drawn in this order, later ones on top.
      title, xlabel, ylabel: texts, which may contain settings in braces.
      xscale, yscale: linear or log; horizontally also log2, with ticks at powers of two.
      xlim, ylim: limits of the axes.
      reversed: whether values decrease from left to right.
      width: relative to the other panels.
    """

    layers: Sequence[Layer | Level]
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    xscale: Literal["linear", "log", "log2"] = "linear"
    yscale: Literal["linear", "log"] = "linear"
    xlim: tuple[float | None, float | None] = (None, None)
    ylim: tuple[float | None, float | None] = (None, None)
    reversed: bool = False
    width: float = 1.0

    @property
    def measured(self) -> list[Layer]:
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def draw(self, axes: Axes, records: Records, styles: Styles, settings: object) -> None:
        known = {name: records.distinct(name) for name in records.labels}
        words = vars(settings) | {name: values[0] for name, values in known.items() if len(values) == 1}
        axes.grid(True)
        if self.xscale == "log2":
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
        else:
            axes.set_xscale(self.xscale)
        axes.set_yscale(self.yscale)
        for layer in self.layers:
            if isinstance(layer, Level):
                layer.draw(axes, settings)
            else:
                layer.draw(axes, records, styles)
        title = textwrap.fill(self.title.format_map(words), 52, break_on_hyphens=False)
        xlabel, ylabel = self.xlabel.format_map(words), self.ylabel.format_map(words)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xlim=self.xlim, ylim=self.ylim)
        if self.reversed:
            axes.invert_xaxis()
        ends = {}
        for layer in self.measured:
            if isinstance(layer, Line):
                ends |= layer.ends(records, styles)
        if ends:
            style.label_ends(axes, ends)


@dataclasses.dataclass(frozen=True)
class Panels:
    """A figure of a study: panels in one or more rows.

    Attributes:
      panels: from left to right, row by row.
      size: width and height in inches; by default it follows from the number of panels.
      columns: panels in a row; all of them by default.
      each: a label; the rows of panels are repeated for each of its values.
      caption: as below a figure in a paper; may contain settings in braces.
    """

    panels: Sequence[Panel]
    size: tuple[float, float] | None = None
    columns: int = 0
    each: str = ""
    caption: str = ""

    def __call__(self, records: Records, settings: object) -> Drawing:
        layers = [layer for panel in self.panels for layer in panel.measured]
        styles = line_styles(name for layer in layers for name in layer.names(records))
        parts = list(records.each(self.each)) if self.each else [({}, records)]
        numbers = [labels | row for labels, part in parts for layer in layers for row in layer.rows(part)]
        if not numbers:
            raise NotRecorded("there is no record of what it draws")
        with style.looks():
            columns = self.columns or len(self.panels)
            rows = len(self.panels) // columns
            width, height = self.size or (1.5 + 4.2 * columns, 3.7 * rows)
            figure = Figure(figsize=(width, height * len(parts)))
            widths = [panel.width for panel in self.panels[:columns]]
            grid = figure.subplots(len(parts) * rows, columns, width_ratios=widths, squeeze=False)
            for (_, part), of_part in zip(parts, np.split(grid, len(parts)), strict=True):
                for panel, axes in zip(self.panels, of_part.flat, strict=True):
                    panel.draw(axes, part, styles, settings)
        return Drawing(figure, numbers, self.caption.format_map(vars(settings)))
