"""Every figure is drawn once on small data, saved, and looked at: not blank, and it says what it should."""

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import comparison, style


def seen(figure, folder, data):
    """All visible text of a figure that was saved and is not blank."""
    png = style.save(figure, folder / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    assert png.with_suffix(".pdf").stat().st_size > 1000
    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def result(name, outcomes, reward, rank):
    """Two seeds, measured three times."""
    return comparison.Result(
        name=name,
        updates=np.array([0, 10, 20]),
        effective_outcomes=np.array([[5.0, 4.0, outcomes - 0.5], [5.0, 5.0, outcomes + 0.5]]),
        reward=np.array([[0.2, 0.5, reward], [0.2, 0.6, reward]]),
        rank=rank,
    )


def test_comparison(tmp_path):
    results = [
        result("ips_grpo", 5.7, 0.9, 1),
        result("grpo", 1.2, 1.0, 2),
        result("dapo", 1.2001, 1.0, 2),
        result("gspo", 1.1, 1.0, 2),
        result("idle", 9.0, 0.3, None),
        result("gmpo", 1.2, 1.0, 2),
    ]
    figure = comparison.draw("a bandit: 6 objectives", results, bar=0.81, placebo=3.25)
    data = comparison.data(results)
    text = seen(figure, tmp_path, data)
    for expected in (
        "a bandit: 6 objectives",
        "1. ips_grpo\n",
        "2. grpo = dapo = gmpo\n",
        "2. gspo\n",
        "\nidle",
        "0.81",
    ):
        assert expected in text
    left, right = figure.axes
    dots = [line.get_xydata()[0] for line in left.lines if line.get_marker() == "o"]
    assert [x for x, _ in dots] == pytest.approx([5.7, 1.2, 1.1, 9.0])
    # The first is on top.
    assert left.get_ylim()[0] > left.get_ylim()[1]
    assert sorted(y for _, y in dots) == [y for _, y in dots]
    bars = [line.get_xdata() for line in left.lines if line.get_marker() == "None" and len(set(line.get_ydata())) == 1]
    np.testing.assert_allclose(bars, [[5.2, 6.2], [0.7, 1.7], [0.6, 1.6], [8.5, 9.5]])
    assert any(np.allclose(line.get_xdata(), 3.25) for line in left.lines)
    assert any(np.allclose(line.get_xdata(), 0.81) for line in right.lines)
    for axes, measure in ((left, "effective_outcomes"), (right, "reward")):
        drawn = {line.get_xdata()[0] for line in axes.lines if line.get_marker() in "oD"}
        ends = [row["value"] for row in data if row["measure"] == measure and row["update"] == 20]
        assert len(ends) == len(results)
        assert all(min(abs(end - x) for x in drawn) < 1e-3 for end in ends)
    colours = [line.get_color() for line in left.lines if line.get_marker() == "o"]
    assert len(set(colours[:3])) == 1 != len(set(colours))

    alone = comparison.draw("one", results[:1], bar=0.5, placebo=None)
    text = seen(alone, tmp_path, comparison.data(results[:1]))
    assert "placebo" not in text
    assert "not compared" not in text
    with pytest.raises(ValueError, match="nothing to compare"):
        comparison.draw("none", [], bar=0.5, placebo=None)
