import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import many_outcomes, style
from ipsrl.measures.seeds import Interval

SHOWN = {
    "num_outcomes": (16, 256),
    "start": (0.7, 0.6),
    "kept": {
        "grpo": [np.array([0.5, 0.6]), np.array([0.55, 0.57])],
        "ips_grpo": [np.full(2, 0.9), np.full(2, 0.7)],
    },
    "rates": {"counts": [Interval(0.2, 0.1, 0.3, 9), Interval(1e-3, 5e-4, 2e-3, 9)]},
    "closed_forms": {"counts": (np.array([16, 64, 256]), np.array([0.25, 0.02, 1.1e-3]))},
    "asymptote": (np.array([16, 256]), np.array([0.4, 1.2e-3]), "as 1 / K²"),
}


def drawn(**changes):
    return many_outcomes.draw(**(SHOWN | changes), group_size=16, passes=8)


def test_lines_are_means_and_every_line_has_its_name(tmp_path):
    figure = drawn()
    data = many_outcomes.data(**SHOWN)
    png = style.save(figure, tmp_path / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    text = "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())
    for expected in ("grpo", "ips_grpo", "before training", "after 8 samples", "counts", "closed form", "as 1 / K²"):
        assert expected in text
    left, right = figure.axes
    lines = [line.get_ydata() for line in left.lines]
    for values in ((0.55, 0.56), (0.9, 0.7), (0.7, 0.6)):
        assert any(np.shape(line) == (2,) and np.allclose(line, values) for line in lines)
    assert any(np.allclose(line.get_ydata(), (0.2, 1e-3)) for line in right.lines if len(line.get_ydata()) == 2)
    for axes, measure in ((left, "effective_outcomes_over_K"), (right, "restoring_rate")):
        for series in {row["series"] for row in data if row["measure"] == measure}:
            same = [(row["num_outcomes"], row["value"]) for row in data if row["series"] == series]
            curves = [line.get_xydata() for line in axes.lines]
            assert any(np.shape(line) == np.shape(same) and np.allclose(line, same) for line in curves), series


def test_names_of_lines_that_end_together_stand_apart():
    together = {name: [np.full(2, 0.6), np.full(2, 0.6)] for name in ("one", "two", "three")}
    figure = drawn(kept=together)
    heights = sorted(text.get_position()[1] for text in figure.axes[0].texts if text.get_text() in together)
    assert len(heights) == 3
    assert np.diff(heights).min() > 0.05


def test_missing_values_are_refused():
    with pytest.raises(ValueError, match="grpo has 1 values, there must be one for each of 2 K"):
        drawn(kept={"grpo": [np.zeros(2)]})
