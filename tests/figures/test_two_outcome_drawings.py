"""The maps and times of two-outcome training, drawn on small data."""

import numpy as np
from matplotlib.image import imread
from matplotlib.text import Text

from ipsrl.figures import collapse_time, recovery_time, style, survival_map
from ipsrl.measures.seeds import Interval


def seen(figure, folder, data):
    png = style.save(figure, folder / "figure", data)
    assert imread(png)[..., :3].std() > 0.05
    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def values_of(data, measure):
    return np.array([row["value"] for row in data if row["measure"] == measure])


def test_survival_map(tmp_path):
    survival = np.array([[0.0, 0.0], [0.0, 1.0], [0.75, 1.0]])
    panel = survival_map.Panel(
        "no baseline", "α > ln ρ / ln G", np.array([2, 4]), np.array([0.0, 1.0, 1.5]), survival, 0.3 * survival,
        wrong=np.array([[False, False], [False, False], [True, False]]),
        border=np.array([[2, 3, 4], [2.0, 1.26, 1.0]]),
    )  # fmt: skip
    figure = survival_map.draw([panel, panel], (4.0, 1.0))
    data = survival_map.data([panel])
    text = seen(figure, tmp_path, data)
    for expected in (
        "no baseline\nα > ln ρ / ln G",
        "survives",
        "dies out",
        "group size G",
    ):
        assert expected in text
    above = figure.axes[0]
    np.testing.assert_allclose(above.collections[0].get_array(), survival)
    np.testing.assert_array_equal(survival, values_of(data, "survival_share").reshape(3, 2))
    np.testing.assert_array_equal(0.3 * survival, values_of(data, "mean_p2").reshape(3, 2))
    np.testing.assert_array_equal([2.0, 1.26, 1.0], values_of(data, "critical_alpha"))
    assert [(row["group_size"], row["alpha"]) for row in data if row.get("wrong")] == [(2, 1.5)]
    (cross,) = [line for line in above.lines if line.get_marker() == "x"]
    np.testing.assert_allclose(cross.get_xydata(), [[2, 1.5]])
    assert any(np.allclose(line.get_xdata(), [2, 3, 4]) for line in above.lines if len(line.get_xdata()) == 3)


def test_collapse_time(tmp_path):
    sampled = [Interval(520.0, 500.0, 540.0, 100), Interval(1000.0, 980.0, 1050.0, 100)]
    kept = {"grpo": (0, 200), "ips_grpo": (0, 200), "ips_reinforce": (5, 200)}
    shares = {name: collapse_time.Share(*counts, low=0.008, high=0.057) for name, counts in kept.items()}
    theory = {"formula": np.array([497.0, 995.0]), "exact": np.array([522.0, 1023.0])}
    shown = {"objective": "reinforce", "sizes": np.array([4, 8]), "sampled": sampled, **theory, "kept": shares}
    figure = collapse_time.draw(**shown, threshold=0.98, kept_steps=20000)
    data = collapse_time.data(**shown)
    text = seen(figure, tmp_path, data)
    for expected in (
        "ips_reinforce: 2.5 % of 200 runs collapsed [95 %: 0.8, 5.7]",
        "none of 200 runs of each collapsed: grpo, ips_grpo",
        "watched for 20,000 updates",
        "has p = 0.98",
        "reinforce, sampled: mean of 100 runs, bars: 95 % intervals",
    ):
        assert expected in text

    times = [np.array(line.get_ydata(), float) for line in figure.axes[0].lines]
    for measure in ("updates_sampled", "updates_in_small_steps"):
        assert any(np.array_equal(line, values_of(data, measure)) for line in times)
    np.testing.assert_array_equal(theory["exact"], values_of(data, "updates_exact"))
    np.testing.assert_array_equal([0, 0, 0.025], values_of(data, "share_of_runs_collapsed"))


def test_recovery_time(tmp_path):
    starts = np.array([1e-2, 1e-5])
    sampled = (np.array([1e-2]), [Interval(5.5, 5.4, 5.6, 10)], np.array([5.0]))
    curves = [
        recovery_time.Curve("no baseline", *sampled, starts, np.array([5.0, 4000.0])),
        recovery_time.Curve("group mean", *sampled, starts, np.array([5.5, 4400.0])),
        recovery_time.Curve("group mean and std", *sampled, starts, np.array([13.0, 13000.0])),
    ]
    figure = recovery_time.draw(curves, np.array([1.5, 5.0]), 16, 0.0975)
    data = recovery_time.data(curves, np.array([1.5, 5.0]))
    text = seen(figure, tmp_path, data)
    for expected in ("groups of 16", "p₂ = 0.0975", "means of 10\nsampled runs, bars: 95 % intervals", "theory only"):
        assert expected in text
    # Each name in the colour of its line, also where lines end close to each other.
    colours = {label.get_text(): label.get_color() for label in figure.axes[0].texts}
    drawn = {line.get_color(): line.get_ydata()[-1] for line in figure.axes[0].lines if len(line.get_xdata()) == 2}
    ends = {name: drawn[colours[name]] for name in ("exact probabilities", *(curve.rule for curve in curves))}
    assert ends == {
        "exact probabilities": 5.0, "no baseline": 4000.0, "group mean": 4400.0, "group mean and std": 13000.0
    }  # fmt: skip
    np.testing.assert_array_equal(values_of(data, "time_of_the_flow"), [1.5, 5.0])
    np.testing.assert_array_equal(values_of(data, "time_sampled"), [5.5] * 3)
    # Of each rule the start that was sampled, then the line.
    mean_field = [5.0, 5.0, 4000.0, 5.0, 5.5, 4400.0, 5.0, 13.0, 13000.0]
    np.testing.assert_array_equal(values_of(data, "time_of_the_mean_field"), mean_field)
    excess = [line.get_ydata() for line in figure.axes[1].lines if len(line.get_xdata()) == 1]
    assert any(np.allclose(values, 10.0) for values in excess)


def test_the_caption_of_the_survival_map_says_what_was_run():
    caption = survival_map.caption((4.0, 1.0), 0.01, "8 seeds in each cell")
    for expected in ("ρ = 4.", "8 seeds in each cell", "mean p₂ > 0.01"):
        assert expected in caption
    assert "\n" not in caption
