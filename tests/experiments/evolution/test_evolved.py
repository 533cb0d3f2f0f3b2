import numpy as np
import pytest

from experiments.evolution.evolved import exact, of_table, of_words


def test_measures_of_the_table_are_taken_where_accuracy_reaches_each_bar():
    run = np.array([[0.3, 0.2, 0.5], [0.6, 0.2, 0.2], [0.85, 0.10, 0.05], [0.05, 0.90, 0.05]])
    stuck = np.tile(run[:1], (4, 1))
    found = of_table(np.stack([run, stuck]))
    np.testing.assert_allclose(found["accuracy"], [[0.95], [0.5]])
    np.testing.assert_allclose(found["rarer at the end"], [[0.05 / 0.95], [0.4]])
    # Linear between 0.5 and 0.8, and between 0.8 and 0.95.
    np.testing.assert_allclose(found["rarer at 0.65"], [[0.4 - (0.4 - 0.25) / 2], [np.nan]])
    np.testing.assert_allclose(found["rarer at 0.9"], [[0.25 - (0.25 - 0.1 / 0.95) * 2 / 3], [np.nan]])
    assert np.isnan(found["rarer at 0.99"]).all()


def test_measures_of_words_are_means_over_prompts():
    rewards = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    first, last = np.full((2, 4), 0.25), np.array([[0.45, 0.45, 0.1, 0.0], [0.7, 0.3, 0.0, 0.0]])
    found = of_words(np.stack([first, last])[None], rewards)
    np.testing.assert_allclose(found["accuracy"], [[0.6]])
    np.testing.assert_allclose(found["effective"], [[1.5]], rtol=1e-6)
    np.testing.assert_allclose(found["effective at 0.6"], [[1.5]], rtol=1e-6)
    np.testing.assert_allclose(found["pass@4 at 0.6"], [[1 - (0.1**4 + 0.7**4) / 2]])


def test_exact_flows_lose_the_rarer_outcome_later_with_more_noise():
    without, with_noise = (exact(noise).values for noise in (0.0, 2.0))
    assert without["rarer at 0.99"][0, 0] == pytest.approx(0.173, abs=1e-3)
    for values in (without, with_noise):
        course = [values[name][0, 0] for name in ("rarer at 0.65", "rarer at 0.9", "rarer at 0.99", "rarer at the end")]
        assert np.all(np.diff(course) < 0)
    assert all(with_noise[f"rarer at {bar}"] > without[f"rarer at {bar}"] for bar in (0.65, 0.9, 0.99))
