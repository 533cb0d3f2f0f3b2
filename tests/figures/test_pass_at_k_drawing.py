import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import pass_at_k, style

START = np.array([0.2, 0.5, 0.8])


def drawn(**trained):
    return pass_at_k.draw([1, 4, 16], START, trained, "100 held-out questions")


def test_lines_are_means_over_seeds_and_bands_reach_to_the_seeds(tmp_path):
    trained = {"grpo": np.array([[0.4, 0.6, 0.6], [0.6, 0.6, 0.7]]), "ips_grpo": np.array([[0.3, 0.6, 0.8]])}
    figure = drawn(**trained)
    data = pass_at_k.data([1, 4, 16], START, trained)
    png = style.save(figure, tmp_path / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    text = "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())
    for expected in ("grpo", "ips_grpo", "before training", "pass@k", "100 held-out questions", "16"):
        assert expected in text
    (axes,) = figure.axes
    lines = [line.get_ydata() for line in axes.lines]
    np.testing.assert_allclose(lines, [START, [0.5, 0.6, 0.65], [0.3, 0.6, 0.8]])
    assert all(line.get_xdata().tolist() == [1, 4, 16] for line in axes.lines)
    np.testing.assert_allclose(np.ravel(lines), [row["value"] for row in data])
    assert [row["objective"] for row in data[::3]] == ["before training", "grpo", "ips_grpo"]
    assert axes.get_xscale() == "log"
    band = axes.collections[0].get_paths()[0].vertices
    assert {0.4, 0.6} <= set(band[band[:, 0] == 1, 1].round(6))


def test_names_of_lines_that_end_together_stand_apart_below_the_top():
    end = {name: np.array([[0.9, 0.95, 1.0]]) for name in ("one", "two", "three(k=2)")}
    (axes,) = drawn(**end).axes
    heights = sorted(text.get_position()[1] for text in axes.texts)
    assert len(heights) == 4
    assert np.diff(heights).min() > 0.07
    assert heights[-1] <= axes.get_ylim()[1]


def test_where_nothing_is_right_the_scale_is_whole():
    figure = pass_at_k.draw([1, 2], np.zeros(2), {"grpo": np.zeros((2, 2))}, "hard questions")
    assert figure.axes[0].get_ylim() == (0.0, 1.0)


def test_rows_of_another_length_are_refused():
    with pytest.raises(ValueError, match="pass@k of grpo has 2 columns, there are 3 k"):
        drawn(grpo=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="pass@k of before training has 1 columns"):
        pass_at_k.draw([1, 2], np.zeros(1), {}, "")
