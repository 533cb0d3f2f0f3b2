"""Every figure is drawn once on small data, saved, and looked at: not blank, and it says what it should."""

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import group_size_and_floor, hypergrid_laws, style, text_tasks, two_outcomes


def seen(figure, folder, data):
    """All visible text of a figure that was saved and is not blank."""
    png = style.save(figure, folder / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    assert png.with_suffix(".pdf").stat().st_size > 1000
    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def test_two_outcomes(tmp_path):
    times = np.linspace(0, 5, 20)
    comparisons = [
        two_outcomes.Comparison("reinforce", times, times, times + 0.02, np.full(20, 0.01) * (times > 0)),
        two_outcomes.Comparison("ips_reinforce", times, 0 * times, 0 * times, np.full(20, 0.01)),
    ]
    figure = two_outcomes.draw(comparisons, rewards=(4.0, 1.0))
    data = two_outcomes.data(comparisons)
    text = seen(figure, tmp_path, data)
    assert "ips_reinforce" in text
    assert "rewards 4 and 1" in text
    # The first point has no standard error; all others deviate by two of them.
    below = figure.axes[1]
    deviations = [line.get_ydata() for line in below.lines if len(line.get_xdata()) == 19]
    np.testing.assert_allclose(deviations, [np.full(19, 2.0)])
    for number, name in enumerate(("reinforce", "ips_reinforce")):
        for line, log_ratio in zip(figure.axes[0].lines[2 * number :], ("closed_form", "sampled_mean"), strict=False):
            same = [row for row in data if (row["objective"], row["log_ratio"]) == (name, log_ratio)]
            np.testing.assert_array_equal(line.get_xydata(), [(row["time"], row["value"]) for row in same])


def test_hypergrid_laws(tmp_path):
    target = np.full((4, 4), 1 / 16)
    modes = np.eye(4, dtype=bool)
    collapsed = np.zeros((4, 4))
    collapsed[0, 3] = 1.0
    shown = {"grpo": collapsed, "ips_grpo": target}, target, modes
    figure, data = hypergrid_laws.draw(*shown), hypergrid_laws.data(*shown)
    text = seen(figure, tmp_path, data)
    assert "L1 = 1.875, per cell 0.1172" in text
    assert "L1 = 0.000, per cell 0.0000" in text
    for axes, law in zip(figure.axes, ("target", "grpo", "ips_grpo"), strict=False):
        image = np.ma.filled(axes.images[0].get_array(), 0)
        cells = {(row["x1"], row["x2"]): row["value"] for row in data if row["law"] == law}
        assert cells == {(x1, x2): chance for (x2, x1), chance in np.ndenumerate(image)}
    assert sum(row["mode"] for row in data) == 3 * 4
    with pytest.raises(ValueError, match="one \\[side, side\\] shape"):
        hypergrid_laws.draw({"grpo": collapsed.ravel()}, target, modes)


@pytest.mark.parametrize("seeds", [1, 3])
def test_hypospace(tmp_path, seeds):
    curve = np.linspace(5, 1, 6) + np.arange(seeds)[:, None]
    result = text_tasks.TaskResult(
        task="Boolean",
        updates=np.arange(6),
        effective_outcomes={"grpo": curve, "ips_grpo": curve + 1},
        answers=64,
        recovery={"grpo": np.full(seeds, 0.2), "ips_grpo": np.full(seeds, 0.5), "prior": np.full(seeds, 0.3)},
        validity={"grpo": np.full(seeds, 0.9), "ips_grpo": np.full(seeds, 0.9)},
        ceiling=0.65,
    )
    figure = text_tasks.draw([result, result])
    data = text_tasks.data([result, result])
    text = seen(figure, tmp_path, data)
    for word in ("Boolean", "in 64 answers to a prompt", "prior", "recovery", "validity", "ceiling of independent"):
        assert word in text
    assert len(figure.axes) == 4
    for name, line in zip(("grpo", "ips_grpo"), figure.axes[0].lines, strict=True):
        same = [row for row in data if row["objective"] == name and row["measure"] == "effective_outcomes"]
        np.testing.assert_array_equal(line.get_xydata(), [(row["update"], row["value"]) for row in same[:6]])
        assert same[0]["seeds"] == seeds
    ends = {(row["objective"], row["measure"]): row["value"] for row in data if "update" not in row}
    drawn = {line.get_xdata()[0] for line in figure.axes[2].lines}
    assert drawn == set(ends.values())
    assert ends["prior", "recovery"] == 0.3
    assert ends["ceiling of independent samples", "recovery"] == 0.65


def test_group_size_and_floor(tmp_path):
    recovery = np.arange(12).reshape(2, 2, 3) / 12
    figure = group_size_and_floor.draw([4, 16], [0.1, 0.25], recovery)
    data = group_size_and_floor.data([4, 16], [0.1, 0.25], recovery)
    text = seen(figure, tmp_path, data)
    assert "0.08\n0.00 to 0.17" in text
    # At G = 4 neither floor can act, at G = 16 both do; each outline is a patch of the table.
    assert len(figure.axes[0].patches) == 2
    assert [row["floor_can_act"] for row in data] == [False, False, True, True]
    np.testing.assert_allclose([row["value"] for row in data], figure.axes[0].images[0].get_array().ravel())
    with pytest.raises(ValueError, match="must be \\[2, 1, seed\\]"):
        group_size_and_floor.draw([4, 16], [0.1], recovery)
