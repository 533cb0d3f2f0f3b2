"""A layer of a figure that shows every seed."""

import dataclasses

import numpy as np
from matplotlib.axes import Axes

from ipsrl.figures import style, table
from ipsrl.figures.layers import Layer, Styles
from ipsrl.records.tidy import Records


@dataclasses.dataclass(frozen=True)
class Seeds(Layer):
    """The final value of every seed as a marker, one column for each value of `by`, the mean as line and number."""

    at_end: bool = True

    def draw(self, axes: Axes, records: Records, styles: Styles) -> None:
        names = self.names(records)
        for column, (name, (_, rows)) in enumerate(
            zip(names, self.chosen(records).each(self.by), strict=True)
        ):
            ends = rows.column(self.value)
            spread = column + (
                np.linspace(-0.32, 0.12, len(ends)) if len(ends) > 1 else np.zeros(1) - 0.1
            )
            look = {"color": styles[name]["color"], "marker": styles[name]["marker"]}
            axes.plot(spread, ends, linestyle="none", markersize=3.5, alpha=0.7, **look)
            mean = float(ends.mean())
            axes.plot([column - 0.36, column + 0.16], [mean, mean], color="black", linewidth=1.2)
            place, box = (
                (column + 0.16, mean),
                {"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )
            words: style.Look = {"va": "center", "fontsize": 8.5, "fontweight": "bold", "bbox": box}
            axes.annotate(f"{mean:.2f}", place, (3, 0), textcoords="offset points", **words)
        # A line for each argument.
        in_lines = [
            name.replace("(", "\n(").replace(", ", ",\n").replace(") ", ")\n") for name in names
        ]
        axes.set_xticks(range(len(names)), in_lines, fontsize=7.5)
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="x", length=0)

    def rows(self, records: Records) -> list[table.Row]:
        measure = {"measure": f"{self.value} at the end"}
        columns = {self.by: self.by, "seed": "seed", "value": self.value}
        return [
            measure | {column: row.get(name) for column, name in columns.items()}
            for row in self.chosen(records).rows
        ]
