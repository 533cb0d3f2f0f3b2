"""The sorted dot plot: objectives that did the same share a line, and what is below the bar is grey."""

import numpy as np
import pytest

from experiments.compare import figure, ranking
from tests.experiments.recorded import courses
from tests.figures.words import words_of


def result(name, outcomes, reward, rank):
    """Two seeds, measured three times."""
    values = {
        "effective_outcomes": [[5.0, 4.0, outcomes - 0.5], [5.0, 5.0, outcomes + 0.5]],
        "reward": [[0.2, 0.5, reward], [0.2, 0.6, reward]],
    }
    return ranking.Result(name, rank, courses((), {(): values}, (0, 10, 20)))


def test_comparison():
    results = [
        result("ips_grpo", 5.7, 0.9, 1),
        result("grpo", 1.2, 1.0, 2),
        result("dapo", 1.2001, 1.0, 2),
        result("placebo", 1.1, 1.0, 2),
        result("idle", 9.0, 0.3, None),
        result("gmpo", 1.2, 1.0, 2),
    ]
    drawing = figure.draw("a bandit: 6 objectives", results, bar=0.81)
    data = drawing.rows
    text = words_of(drawing.figure)
    for expected in (
        "a bandit: 6 objectives",
        "1. ips_grpo\n",
        "2. grpo = dapo = gmpo\n",
        "2. placebo\n",
        "\nidle",
        "0.81",
    ):
        assert expected in text
    left, right = drawing.figure.axes
    dots = [line.get_xydata()[0] for line in left.lines if line.get_marker() == "o"]
    assert [x for x, _ in dots] == pytest.approx([5.7, 1.2, 1.1, 9.0])
    # The first is on top.
    assert left.get_ylim()[0] > left.get_ylim()[1]
    assert sorted(y for _, y in dots) == [y for _, y in dots]
    bars = [line.get_xdata() for line in left.lines if line.get_marker() == "None" and len(set(line.get_ydata())) == 1]
    half = 12.7062 * 0.5  # Student's t of two seeds, whose mean has a standard error of 0.5.
    np.testing.assert_allclose(bars, [[mean - half, mean + half] for mean in (5.7, 1.2, 1.1, 9.0)], rtol=1e-5)
    assert any(np.allclose(line.get_xdata(), 1.1) for line in left.lines if len(set(line.get_ydata())) > 1)
    assert any(np.allclose(line.get_xdata(), 0.81) for line in right.lines)
    for axes, measure in ((left, "effective_outcomes"), (right, "reward")):
        drawn = {line.get_xdata()[0] for line in axes.lines if line.get_marker() in "oD"}
        ends = [row["value"] for row in data if row["measure"] == measure and row["update"] == 20]
        assert len(ends) == len(results)
        assert all(min(abs(end - x) for x in drawn) < 1e-3 for end in ends)
    colours = [line.get_color() for line in left.lines if line.get_marker() == "o"]
    assert len(set(colours[:3])) == 1 != len(set(colours))

    alone = figure.draw("one", results[:1], bar=0.5)
    text = words_of(alone.figure)
    assert "placebo" not in text
    assert "not compared" not in text
