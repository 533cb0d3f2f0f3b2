import numpy as np
import pytest

from experiments.verdicts import figure
from experiments.verdicts.verdict_page import SHOWN
from ipsrl.dynamics.cases import CASES, STARTS
from tests.experiments.verdicts.made_up import made_up
from tests.figures.words import words_of

DRAWN = np.array(STARTS)[list(SHOWN)]


@pytest.mark.slow
def test_a_bar_for_each_start_in_each_cell():
    corners = np.tile(np.eye(3), (4, 1))
    first = [made_up(name, "collapses", ends=corners) for name in ("first", "second(alpha=0.5)")]
    others = [made_up(f"objective_{n}", "other", ends=STARTS, references=("uniform", "skewed")) for n in range(20)]
    drawing = figure.draw([first, others], group_size=8)
    assert "A bar is a policy" in drawing.caption
    text = words_of(drawing.figure)
    for shown in ("collapses", "one is lost", "Bad", "first, second(alpha=0.5)", "skewed reference", "objective_19"):
        assert shown in text

    (axes,) = drawing.figure.axes
    bars, columns = len(SHOWN), len(CASES)
    parts = [part for part in axes.containers if len(part) == bars]
    # Of each cell the three outcomes and the outline; cells: the starts, one strip of the first row, two of the second.
    assert len(parts) == 4 * columns * (1 + 1 + 2)
    heights = np.array([[bar.get_height() for bar in part] for part in parts]).reshape(-1, 4, bars)
    drawn = (heights[:, :3] / heights[:, 3:]).transpose(0, 2, 1)
    ends = corners[list(SHOWN)]
    np.testing.assert_allclose(drawn, [DRAWN] * columns + [ends] * columns + [DRAWN] * 2 * columns, atol=1e-12)
    # Of the second row, 20 objectives have the same bars.
    told = np.array([[row["end_p1"], row["end_p2"], row["end_p3"]] for row in drawing.rows]).reshape(-1, bars, 3)
    assert len(told) == columns * (2 * 1 + 20 * 2)
    np.testing.assert_array_equal(told[: 2 * columns], [ends] * 2 * columns)
    np.testing.assert_array_equal(told[2 * columns :], [DRAWN] * 20 * 2 * columns)
    # A long list of names pushes the next row down.
    alone = figure.draw([first, others[:1]], group_size=8)
    assert alone.figure.get_figheight() < drawing.figure.get_figheight()


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="there is no verdict to draw"):
        figure.draw([], group_size=8)
