"""Each kind of drawing, on small records."""

import dataclasses

import numpy as np
import pytest

from ipsrl.figures.layers import Bars, HeatMap, Line, LineOverNumbers, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import NotRecorded, Records


@dataclasses.dataclass(frozen=True)
class Settings:
    steps: int = 2000


def course(points):
    return Records(
        [{"objective": "grpo", "step": 2 * n, "height": 4.0 * n, "half": 2.0} for n in range(points)], ("objective",)
    )


GRID = Records(
    [
        {"size": size, "alpha": alpha, "seed": seed, "step": 0, "share": share + seed, "limit": limit}
        for (size, limit) in ((2, 0.75), (4, 0.25), (8, float("nan")))
        for alpha, share in ((0.0, 0.0), (1.0, 2.0))
        if (size, alpha) != (8, 1.0)
        for seed in (0, 1)
    ],
    ("size", "alpha"),
)


def axes_of(panels, records):
    return Panels(panels)(records, Settings()).figure.axes


def test_a_value_may_be_drawn_over_another():
    drawing = Panels([Panel([Line("height", over="half"), Markers("height", over="half")])])(course(3), Settings())
    line, markers = drawing.figure.axes[0].lines[:2]
    assert line.get_ydata().tolist() == markers.get_ydata().tolist() == [0, 2, 4]
    assert [row["measure"] for row in drawing.rows] == ["height / half"] * 6
    assert [row["value"] for row in drawing.rows] == [0, 2, 4] * 2


@pytest.mark.parametrize(("points", "shown"), [(29, 29), (30, 15), (100, 17)])
def test_crowded_markers_are_thinned_out(points, shown):
    (axes,) = axes_of([Panel([Markers("height")])], course(points))
    assert len(axes.lines[0].get_xdata()) == shown


@pytest.mark.parametrize("each", ["", "objective"])
def test_a_figure_of_nothing_says_that_nothing_of_it_is_recorded(each):
    with pytest.raises(NotRecorded):
        Panels([Panel([Line("height", without=("grpo",))])], each=each)(course(3), Settings())


def test_powers_of_two_are_ticks():
    (axes,) = axes_of([Panel([Line("height", along="half", named=False)], xscale="log2")], course(2))
    axes.set_xlim(2, 64)
    assert [label.get_text() for label in axes.get_xticklabels() if 2 <= label.get_position()[0] <= 64] == [
        "2",
        "4",
        "8",
        "16",
        "32",
        "64",
    ]


def test_bars_of_nothing_start_at_zero():
    (axes,) = axes_of([Panel([Bars("height")])], course(1))
    assert axes.get_xlim()[0] == 0


def test_a_map_has_a_border_and_crosses():
    look = {"numbers": "", "bar": "share", "border": "limit"}
    crossed = HeatMap("share", "size", across="alpha", crossed=lambda cell: cell.column("share")[0] > 1, **look)
    axes, bar = axes_of([Panel([crossed])], GRID)
    assert axes.images[0].get_array().filled(-1).tolist() == [[0.5, 0.5, 0.5], [2.5, 2.5, -1]]
    assert bar.get_ylabel() == "share"
    border, _, crosses = axes.lines
    np.testing.assert_array_equal(border.get_xydata(), [[0, 0.75], [1, 0.25], [2, np.nan]])
    assert crosses.get_xydata().tolist() == [[0, 1], [1, 1]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "4", "8"]


def test_panels_may_lie_in_rows_and_have_a_caption():
    panel = Panel([HeatMap("share", "size", across="alpha")])
    drawing = Panels([panel] * 4, columns=2, caption="After {steps:,} updates.")(GRID, Settings())
    assert drawing.caption == "After 2,000 updates."
    heights = [axes.get_subplotspec().rowspan.start for axes in drawing.figure.axes]
    assert heights == [0, 0, 1, 1]


def test_numbers_in_names_become_the_axis():
    rows = [
        {"objective": "a", "seed": seed, "step": step, "pass_at_1": step / 10, "pass_at_4": step / 5 + seed}
        for seed in (0, 1)
        for step in (0, 1)
    ]
    ((name, places, values),) = LineOverNumbers("pass", "k", numbers=(1, 4, 16)).series(Records(rows, ("objective",)))
    assert (name, places.tolist(), values.mean.tolist()) == ("a", [1, 4], [0.1, 0.7])


def test_the_name_of_a_line_stands_at_its_last_finite_point():
    heights = {"a": (1.0, 2.0, float("nan")), "b": (float("nan"),) * 3, "c": (1.0,)}
    rows = [
        {"arm": arm, "step": step, "height": height} for arm, of in heights.items() for step, height in enumerate(of)
    ]
    (axes,) = axes_of([Panel([Line("height", by="arm")])], Records(rows, ("arm",)))
    assert {text.get_text(): text.xy for text in axes.texts} == {"a": (1.0, 2.0), "c": (0.0, 1.0)}
