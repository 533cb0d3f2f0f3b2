import numpy as np
import pytest
from scipy.stats import binom

from experiments.train_and_test_time.test_time import answer_measures, by_budget, frequencies, inflated, majority_vote


def test_a_gaussian_keeps_its_mean_and_multiplies_its_variance():
    places = np.arange(-60, 61)
    wider = inflated(-(places**2) / (2 * 3.0**2), 4)
    assert wider @ places == pytest.approx(0, abs=1e-9)
    assert wider @ places**2 == pytest.approx(4 * 3.0**2)


def test_limits_of_inflation():
    log_probs = np.array([*np.log([0.5, 0.3, 0.2]), -1e4])
    assert inflated(log_probs, 1) == pytest.approx([0.5, 0.3, 0.2, 0])
    assert inflated(log_probs, 0.01) == pytest.approx([1, 0, 0, 0], abs=1e-6)
    assert inflated(log_probs, 1e7) == pytest.approx([1 / 4] * 4, abs=1e-3)


def test_a_vote_of_three_is_right_with_two_or_three():
    probs = np.array([[0.7, 0.3], [0.4, 0.6]])
    voted = majority_vote(probs, 3, repeats=20_000)
    assert voted[:, 0] == pytest.approx(binom.sf(1, 3, probs[:, 0]), abs=0.01)
    assert voted.sum(axis=-1) == pytest.approx(1)


def test_a_vote_of_one_or_two_changes_nothing():
    """Two different answers tie."""
    probs = np.array([0.5, 0.3, 0.2])
    for answers in (1, 2):
        assert majority_vote(probs, answers, repeats=20_000) == pytest.approx(probs, abs=0.015)


def test_answers_as_a_distribution_over_first_places():
    outcomes = np.array([[7, -1, 7, 3], [5, 5, 5, 5]])
    probs, right = frequencies(outcomes, np.isin(outcomes, [7, 5]))
    assert probs.tolist() == [[0.5, 0.25, 0, 0.25], [1, 0, 0, 0]]
    assert right.tolist() == [[True, False, False, False], [True, False, False, False]]


def test_what_a_budget_buys():
    """One prompt: with a longer thought 0.6 right becomes 0.7, then 0.4; shares 1 : 1 of the right outcomes stay."""
    right = np.array([[True, True, False]])
    thoughts = [(np.array([[half, half, 1 - 2 * half]]), right) for half in (0.3, 0.35, 0.2)]
    values = by_budget({"long": thoughts, "one": thoughts[:1] * 3})
    assert values["long"] == pytest.approx([0.6, 0.7, 0.4])
    assert values["lost_long"] == pytest.approx([0.1, 0, 0.3])
    assert values["lost_one"] == pytest.approx([0.1] * 3)
    assert values["effective_long"] == pytest.approx([2] * 3)
    assert answer_measures(*thoughts[0])["exp_entropy"] == pytest.approx(0.3**-0.6 * 0.4**-0.4)


def test_effective_outcomes_are_a_mean_over_right_answers():
    """A prompt whose right answers are 0.3 : 0.3, one that is solved in one way with 0.2, and one that is not."""
    probs = np.array([[0.3, 0.3, 0.4], [0.2, 0.0, 0.8], [0.0, 0.0, 1.0]])
    right = np.array([[True, True, False]] * 3)
    assert answer_measures(probs, right)["effective"] == pytest.approx((0.6 * 2 + 0.2 * 1) / 0.8)
    assert answer_measures(probs[2:], right[2:])["effective"] == 0
