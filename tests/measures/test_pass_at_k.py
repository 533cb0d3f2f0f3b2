import itertools

import numpy as np
import pytest

from ipsrl.measures.pass_at_k import mean_pass_at_k, pass_at_k


@pytest.mark.parametrize(("samples", "k"), [(6, 1), (6, 3), (6, 6), (5, 2)])
def test_equals_enumeration_of_all_subsets(samples, k):
    correct = np.arange(samples + 1)
    subsets = list(itertools.combinations(range(samples), k))
    expected = [np.mean([min(subset) < c for subset in subsets]) for c in correct]
    np.testing.assert_allclose(pass_at_k(correct, samples, k), expected, rtol=1e-14, atol=1e-15)


def test_large_numbers_stay_finite_and_exact_at_the_ends():
    estimate = pass_at_k(np.array([0, 1, 5000, 9001, 10_000]), 10_000, 1000)
    assert estimate[0] == 0.0
    assert estimate[1] == pytest.approx(0.1, rel=1e-12)
    assert estimate[3] == estimate[4] == 1.0
    assert np.all(np.diff(estimate) >= 0)


def test_prompts_may_have_different_numbers_of_samples():
    np.testing.assert_allclose(pass_at_k(np.array([[1], [2]]), np.array([2, 4]), 2), [[1, 0.5], [1, 5 / 6]])
    assert mean_pass_at_k(np.array([1, 0]), 4, ks=(1, 4)) == {1: 0.125, 4: 0.5}
