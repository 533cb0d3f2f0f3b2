import numpy as np
import pytest

from experiments.entropy_law.entropy_laws import foretold


def test_a_run_that_obeys_the_law_is_foretold():
    entropy = np.linspace([2.0, 1.0], 0.0, 11, axis=1)
    a, b = np.array([[0.1], [0.3]]), np.array([[1.0], [1.2]])
    found = foretold(entropy, b - a * np.exp(entropy), first=3)
    np.testing.assert_allclose(found["a"], a)
    np.testing.assert_allclose(found["b"], b)
    np.testing.assert_allclose(found["ceiling"], b - a)
    for name in ("fit_error", "rest_error", "ceiling_error"):
        np.testing.assert_allclose(found[name], 0.0, atol=1e-12)
    assert (found["gain"] > 0).all()


def test_a_reward_that_is_a_line_in_the_entropy_is_the_placebos():
    entropy = np.linspace([2.0], 0.0, 11, axis=1)
    assert foretold(entropy, 1 - entropy / 2, first=3)["gain"] < 0


def test_entropy_that_is_lost_for_nothing_raises_the_ceiling():
    # Three records by hand: the law is fitted to exp(H) = 3, 2 and R = 0, 1, and foretells 2 where R stays 1.
    found = foretold(np.log([[3.0, 2.0, 1.0]]), np.array([[0.0, 1.0, 1.0]]), first=2)
    expected = {"a": 1, "b": 3, "ceiling": 2, "rest_error": 1, "ceiling_error": 1, "constant_error": 0}
    assert {name: float(found[name][0, 0]) for name in expected} == pytest.approx(expected)


def test_without_a_change_of_entropy_there_is_no_law():
    found = foretold(np.ones((1, 4)), np.array([[0.0, 0.5, 1.0, 1.0]]), first=2)
    assert np.isnan(found["ceiling"]).all()


@pytest.mark.parametrize("first", [1, 4])
def test_the_fitted_records_are_some_but_not_all(first):
    with pytest.raises(ValueError, match=f"and first, {first}, from 2 to"):
        foretold(np.ones((1, 4)), np.ones((1, 4)), first)
