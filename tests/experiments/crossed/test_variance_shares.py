import numpy as np
import pytest

from experiments.crossed.variance_shares import variance_shares

FIRST, SECOND = np.array([0.0, 1.0]), np.array([0.0, 2.0, 4.0])
SUM = FIRST[:, None] + SECOND
SIGNS = np.array([1.0, -1.0])


def shares(values):
    found = variance_shares(values)
    return np.array([found.first.mean, found.second.mean, found.both.mean, found.seeds.mean])


def test_a_sum_is_explained_by_its_terms():
    # Variances 1/4 and 8/3.
    np.testing.assert_allclose(shares(np.stack([SUM, SUM])), [3 / 35, 32 / 35, 0, 0], atol=1e-12)


def test_a_product_of_signs_is_explained_by_both_together():
    np.testing.assert_allclose(shares(np.stack([np.outer(SIGNS, SIGNS)] * 2)), [0, 0, 1, 0], atol=1e-12)


def test_noise_of_seeds_has_its_share_and_leaves_the_means():
    # Variances 1/4, 8/3 and 1: seeds differ by 2 in all cells.
    np.testing.assert_allclose(shares(np.stack([SUM - 1, SUM + 1])), [3 / 47, 32 / 47, 0, 12 / 47], atol=1e-12)


def test_intervals_hold_the_share_and_depend_on_the_seeds():
    rng = np.random.default_rng(0)
    values = SUM + rng.normal(size=(200, 2, 3))
    found = variance_shares(values)
    assert 0 <= found.first.low < found.first.mean < found.first.high < found.second.low
    assert found.second.low < found.second.mean < found.second.high
    assert found.second.mean == pytest.approx((8 / 3) / (1 / 4 + 8 / 3 + 1), abs=0.04)
    still = variance_shares(np.stack([SUM] * 3)).second
    assert still.low == pytest.approx(still.high)


@pytest.mark.parametrize("values", [np.zeros((2, 3)), np.ones((1, 2, 2))])
def test_other_shapes_are_refused(values):
    with pytest.raises(ValueError, match="values must be \\[seed"):
        variance_shares(values)


def test_equal_values_have_no_shares():
    with pytest.raises(ValueError, match="no variance"):
        variance_shares(np.ones((2, 2, 2)))


def test_intervals_hold_the_share_even_of_few_noisy_seeds():
    found = variance_shares(np.random.default_rng(1).normal(size=(5, 2, 3)))
    assert all(share.low < share.mean < share.high for share in (found.first, found.second, found.both, found.seeds))
    assert found.lead.mean == pytest.approx(found.first.mean - found.second.mean)
