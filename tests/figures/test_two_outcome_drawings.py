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
    survival = np.array([[0.0, 0.0], [0.0, 1.0], [0.75, 1.0]])
    panel = survival_map.Panel(
        "no baseline", "α > ln ρ / ln G", np.array([2, 4]), np.array([0.0, 1.0, 1.5]), survival, 0.3 * survival,
        wrong=np.array([[False, False], [False, False], [True, False]]),
        border=np.array([[2, 3, 4], [2.0, 1.26, 1.0]]),
    )  # fmt: skip
    figure = survival_map.draw([panel, panel], (4.0, 1.0), 0.01, "8 seeds in each cell")
    text = seen(figure, tmp_path)
    for expected in (
        "no baseline\nα > ln ρ / ln G",
        "survives",
        "dies out",
        "ρ = 4",
        "p₂ > 0.01",
        "group size G",
        "8 seeds",
    ):
        assert expected in text
    above = figure.axes[0]
    np.testing.assert_allclose(above.collections[0].get_array(), survival)
    (cross,) = [line for line in above.lines if line.get_marker() == "x"]
    np.testing.assert_allclose(cross.get_xydata(), [[2, 1.5]])
    assert any(np.allclose(line.get_xdata(), [2, 3, 4]) for line in above.lines if len(line.get_xdata()) == 3)


def test_collapse_time(tmp_path):
    sampled = [Interval(520.0, 500.0, 540.0, 100), Interval(1000.0, 980.0, 1050.0, 100)]
    kept = {"grpo": (0, 200), "ips_grpo": (0, 200), "ips_reinforce": (5, 200)}
    shares = {name: collapse_time.Share(*counts, low=0.008, high=0.057) for name, counts in kept.items()}
    theory = {"formula": np.array([497.0, 995.0]), "exact": np.array([522.0, 1023.0])}
    figure = collapse_time.draw("reinforce", np.array([4, 8]), sampled, **theory, threshold=0.98, kept=shares,
                                kept_steps=20000)  # fmt: skip
    text = seen(figure, tmp_path)
    for expected in (
        "ips_reinforce: 2.5 % of 200 runs collapsed [95 %: 0.8, 5.7]",
        "none of 200 runs of each collapsed: grpo, ips_grpo",
        "watched for 20,000 updates",
        "has p = 0.98",
        "reinforce, sampled: mean of 100 runs, bars: 95 % intervals",
    ):
        assert expected in text


def test_recovery_time(tmp_path):
    starts = np.array([1e-2, 1e-5])
    sampled = (np.array([1e-2]), [Interval(5.5, 5.4, 5.6, 10)], np.array([5.0]))
    curves = [
        recovery_time.Curve("no baseline", *sampled, starts, np.array([5.0, 4000.0])),
        recovery_time.Curve("group mean", *sampled, starts, np.array([5.5, 4400.0])),
        recovery_time.Curve("group mean and std", *sampled, starts, np.array([13.0, 13000.0])),
    ]
    figure = recovery_time.draw(curves, np.array([1.5, 5.0]), 16, 0.0975)
    text = seen(figure, tmp_path)
    for expected in ("groups of 16", "p₂ = 0.0975", "means of 10\nsampled runs, bars: 95 % intervals", "theory only"):
        assert expected in text
    # Each name in the colour of its line, also where lines end close to each other.
    colours = {label.get_text(): label.get_color() for label in figure.axes[0].texts}
    drawn = {line.get_color(): line.get_ydata()[-1] for line in figure.axes[0].lines if len(line.get_xdata()) == 2}
    ends = {name: drawn[colours[name]] for name in ("exact probabilities", *(curve.rule for curve in curves))}
    assert ends == {
        "exact probabilities": 5.0, "no baseline": 4000.0, "group mean": 4400.0, "group mean and std": 13000.0
    }  # fmt: skip
    excess = [line.get_ydata() for line in figure.axes[1].lines if len(line.get_xdata()) == 1]
    assert any(np.allclose(values, 10.0) for values in excess)
