import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import path_multiplicity, style

PATHS = np.array([1, 3, 3, 1])


def test_lattice_curves_and_final_seeds(tmp_path):
    shares = {"grpo": np.array([[0.75, 0.9], [0.75, 0.8]]), "ips_grpo": np.array([[0.75, 0.5], [0.75, 0.6]])}
    figure = path_multiplicity.draw(np.array([0, 10]), shares, PATHS, more_paths=1, fewer_paths=3)
    data = path_multiplicity.data(np.array([0, 10]), shares)
    png = style.save(figure, tmp_path / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    text = "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())
    for expected in (
        "reward 1,\n3 paths",
        "reward 1,\n1 path\n",
        "3 : 1\nas the paths",
        "1 : 1",
        "grpo",
        "0.85",
        "0.55",
    ):
        assert expected in text
    _, curves, seeds = figure.axes
    assert any(np.allclose(line.get_ydata(), (0.75, 0.85)) for line in curves.lines)
    assert any(np.allclose(line.get_ydata(), (0.5, 0.6)) for line in seeds.lines)
    assert "2 seeds" in seeds.get_title()
    for name, line in zip(shares, curves.lines, strict=False):
        mean = [row for row in data if row["objective"] == name and row["measure"] == "mean_share"]
        np.testing.assert_allclose(line.get_xydata(), [(row["update"], row["value"]) for row in mean])
        ends = [row["value"] for row in data if row["objective"] == name and row["measure"] == "share_at_the_end"]
        assert any(np.array_equal(line.get_ydata(), ends) for line in seeds.lines)


def test_names_of_lines_that_end_together_stand_apart():
    final = {"top": 0.99, "one": 0.98, "two": 0.98, "three(a=1)": 0.5, "four": 0.5}
    shares = {name: np.full((2, 2), end) for name, end in final.items()}
    curves = path_multiplicity.draw(np.array([0, 10]), shares, PATHS, 1, 3).axes[1]
    heights = [text.get_position()[1] for text in curves.texts]
    assert [text.get_text().replace("\n", "") for text in curves.texts] == list(final)
    assert np.diff(np.sort(heights)).min() > 0.05
    assert max(heights) <= 1.0


def test_shares_must_belong_to_the_updates():
    with pytest.raises(ValueError, match="the shares of grpo \\(2, 3\\) must be \\[seed, 2\\]"):
        path_multiplicity.draw(np.array([0, 10]), {"grpo": np.zeros((2, 3))}, PATHS, 1, 3)
