"""The table of bars: every row and start is drawn, at the height of its law."""

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import style, verdicts

STARTS = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
COLUMNS = {"binary": (1.0, 1.0, 0.0), "unequal": (1.0, 0.6, 0.3)}
MEANINGS = {"collapses": ("one is lost", "Bad."), "other": ("none of these", "See the cells.")}


def test_a_bar_for_each_start_in_each_cell(tmp_path):
    corners = np.eye(3)[:2]
    rows = [
        verdicts.Row("collapses", ("first", "second(alpha=0.5)"), {"": dict.fromkeys(COLUMNS, corners)}),
        verdicts.Row(
            "other",
            tuple(f"objective_{number}" for number in range(20)),
            {"uniform reference": dict.fromkeys(COLUMNS, STARTS), "skewed reference": dict.fromkeys(COLUMNS, STARTS)},
        ),
    ]
    figure = verdicts.draw(rows, COLUMNS, STARTS, MEANINGS, group_size=8)
    data = verdicts.data(rows, COLUMNS, STARTS)
    png = style.save(figure, tmp_path / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    assert png.with_suffix(".pdf").stat().st_size > 1000
    text = "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())
    for shown in ("collapses", "one is lost", "Bad.", "first, second(alpha=0.5)", "skewed reference", "objective_19"):
        assert shown in text

    (axes,) = figure.axes
    parts = [bars for bars in axes.containers if len(bars) == len(STARTS)]
    # Of each cell the three outcomes and the outline; cells: the starts, one strip of the first row, two of the second.
    assert len(parts) == 4 * len(COLUMNS) * (1 + 1 + 2)
    heights = np.array([[bar.get_height() for bar in bars] for bars in parts]).reshape(-1, 4, len(STARTS))
    drawn = (heights[:, :3] / heights[:, 3:]).transpose(0, 2, 1)
    np.testing.assert_allclose(drawn, [STARTS] * 2 + [corners] * 2 + [STARTS] * 4, atol=1e-12)
    # Of the second row, 20 objectives have the same bars.
    ends = np.array([[row["end_p1"], row["end_p2"], row["end_p3"]] for row in data]).reshape(-1, len(STARTS), 3)
    assert len(ends) == len(COLUMNS) * (2 * 1 + 20 * 2)
    np.testing.assert_array_equal(ends[: 2 * len(COLUMNS)], [corners] * 2 * len(COLUMNS))
    np.testing.assert_array_equal(ends[2 * len(COLUMNS) :], [STARTS] * 20 * 2 * len(COLUMNS))
    # A long list of names pushes the next row down.
    assert rows[1].height > rows[0].height


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="there is no verdict to draw"):
        verdicts.draw([], COLUMNS, STARTS, MEANINGS, group_size=8)
