"""The maps and times of two-outcome training, drawn on small data."""

import numpy as np
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import collapse_time, recovery_time, style, survival_map
from ipsrl.measures.seeds import Interval


def seen(figure, folder):
    png, _ = style.save(figure, folder / "figure")
    assert imread(png)[..., :3].std() > 0.05
    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def test_survival_map(tmp_path):
    second = np.zeros((3, 2, 4))
    second[1:, 1] = 0.3
    second[2, 0, 0] = 0.3
    critical = np.array([2.0, 1.0])
    panel = survival_map.Panel(
        "no baseline", "α > ln ρ / ln G", np.array([2, 4]), np.array([0.0, 1.0, 1.5]), second, critical,
        border=np.array([[2, 3, 4], [2.0, 1.26, 1.0]]),
    )  # fmt: skip
    np.testing.assert_allclose(panel.share(0.01), [[0, 0], [0, 1], [0.25, 1]])
    # The cell at G = 4, alpha = 1 lies on the border, and can be on no wrong side.
    assert not panel.wrong(0.01).any()
    figure = survival_map.draw([panel, panel], (4.0, 1.0), 0.01)
    text = seen(figure, tmp_path)
    for expected in ("no baseline\nα > ln ρ / ln G", "survives", "dies out", "ρ = 4", "p₂ > 0.01", "group size G"):
        assert expected in text
    above = figure.axes[0]
    np.testing.assert_allclose(above.collections[0].get_array(), panel.share(0.01))
    assert any(np.allclose(line.get_xdata(), [2, 3, 4]) for line in above.lines if len(line.get_xdata()) == 3)

    survivor = survival_map.Panel("x", "y", panel.group_sizes, panel.alphas, second + 0.1, critical, panel.border)
    assert survivor.wrong(0.01).tolist() == [[True, True], [True, False], [True, False]]


def test_collapse_time(tmp_path):
    points = [
        collapse_time.Point(4, Interval(520.0, 500.0, 540.0, 100), 497.0, 522.0),
        collapse_time.Point(8, Interval(1000.0, 980.0, 1050.0, 100), 995.0, 1023.0),
    ]
    kept = {"grpo": 0.0, "ips_grpo": 0.0, "ips_reinforce": 0.025}
    text = seen(collapse_time.draw(points, 0.98, kept, 20000), tmp_path)
    for expected in (
        "in 20,000 updates collapsed\n2.5% of the runs of ips_reinforce\nno run of\n  grpo, ips_grpo",
        "has p = 0.98",
        "mean of 100 runs",
    ):
        assert expected in text


def test_recovery_time(tmp_path):
    starts = np.array([1e-2, 1e-5])
    points = [recovery_time.Point(1e-2, Interval(5.5, 5.4, 5.6, 10), 5.0, 4.0)]
    curves = [
        recovery_time.Curve("no baseline", points, starts, np.array([5.0, 4000.0])),
        recovery_time.Curve("group mean", points, starts, np.array([5.5, 4400.0])),
        recovery_time.Curve("group mean and std", points, starts, np.array([13.0, 13000.0])),
    ]
    figure = recovery_time.draw(curves, np.array([1.5, 5.0]), 16)
    text = seen(figure, tmp_path)
    # Lines that end close to each other share a label.
    for expected in ("groups of 16", "no baseline,\ngroup mean\n", "exact probabilities"):
        assert expected in text + "\n"
    excess = [line.get_ydata() for line in figure.axes[1].lines if len(line.get_xdata()) == 1]
    assert any(np.allclose(values, 10.0) for values in excess)
