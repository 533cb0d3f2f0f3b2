import numpy as np
import pytest

from experiments.crossed.shares import variance_shares
from ipsrl.measures.seeds import mean_over_seeds

FIRST, SECOND = np.array([0.0, 1.0]), np.array([0.0, 2.0, 4.0])
SUM = FIRST[:, None] + SECOND
SIGNS = np.array([1.0, -1.0])


def shares(values):
    return variance_shares(values).mean(axis=1)


def test_a_sum_is_explained_by_its_terms():
    # Variances 1/4 and 8/3.
    np.testing.assert_allclose(shares(np.stack([SUM, SUM])), [3 / 35, 32 / 35, 0, 0], atol=1e-12)


def test_a_product_of_signs_is_explained_by_both_together():
    np.testing.assert_allclose(shares(np.stack([np.outer(SIGNS, SIGNS)] * 2)), [0, 0, 1, 0], atol=1e-12)


def test_noise_of_seeds_has_its_share_and_leaves_the_means():
    # Variances 1/4, 8/3 and 1: seeds differ by 2 in all cells.
    np.testing.assert_allclose(shares(np.stack([SUM - 1, SUM + 1])), [3 / 47, 32 / 47, 0, 12 / 47], atol=1e-12)


def test_intervals_hold_the_share_and_depend_on_the_seeds():
    found = variance_shares(SUM + np.random.default_rng(3).normal(size=(200, 2, 3)))
    interval = mean_over_seeds(found[1])
    assert interval.low < (8 / 3) / (1 / 4 + 8 / 3 + 1) < interval.high
    assert 0.01 < interval.high - interval.low < 0.1
    still = variance_shares(np.stack([SUM] * 3))[1]
    assert still.std() == pytest.approx(0)


def test_the_error_is_that_of_the_jackknife():
    values = np.random.default_rng(1).normal(size=(4, 2, 3))
    left_out = np.array([shares(np.delete(values, seed, axis=0)) for seed in range(4)])
    error = np.sqrt(3 * left_out.var(axis=0))
    np.testing.assert_allclose(variance_shares(values).std(axis=1, ddof=1) / np.sqrt(4), error)
