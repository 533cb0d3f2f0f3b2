import numpy as np
import pytest
from scipy.stats import binomtest

from ipsrl.measures.seeds import mean_over_seeds, share_of_runs


def test_the_interval_of_three_seeds_is_that_of_students_t():
    interval = mean_over_seeds(np.array([0.45, 0.5, 0.52]))
    # 4.3027 is the quantile of two degrees of freedom, 0.036056 the standard deviation.
    half = 4.3027 * 0.036056 / np.sqrt(3)
    assert (interval.low, interval.high) == pytest.approx((0.49 - half, 0.49 + half), abs=1e-5)
    assert str(interval) == "0.49 [0.40, 0.58]"
    # The quartiles of t with two degrees of freedom lie at sqrt(2/3).
    narrow = mean_over_seeds(np.array([0.45, 0.5, 0.52]), level=0.5)
    assert narrow.high - narrow.mean == pytest.approx(np.sqrt(2 / 3) * 0.036056 / np.sqrt(3), rel=1e-4)
    largest = mean_over_seeds(np.array([1e300, -1e300]))
    assert (largest.mean, largest.high) == pytest.approx((0.0, 12.7062e300), rel=1e-5)


def test_equal_values_have_no_width_and_one_seed_has_no_interval():
    same = mean_over_seeds(np.full(5, 0.1))
    assert same.mean == same.low == same.high == 0.1
    one = mean_over_seeds(np.array([0.25]))
    assert one.mean == 0.25
    assert np.isnan(one.low)
    assert np.isnan(one.high)
    assert str(one) == "0.25 (1 seed)"


def test_curves_are_treated_point_by_point_and_repeatably():
    values = np.random.default_rng(2).normal(size=(4, 3))
    curve = mean_over_seeds(values)
    np.testing.assert_array_equal(curve.low, mean_over_seeds(values).low)
    assert mean_over_seeds(values[:, 1]).high == pytest.approx(curve.high[1])
    assert curve.mean.shape == curve.low.shape == curve.high.shape == (3,)
    assert str(curve) == "Interval of shape (3,) over 4 seeds"


@pytest.mark.parametrize(("times", "runs"), [(0, 1000), (1, 3), (10, 1000), (40, 40)])
def test_shares_of_runs_have_binomial_intervals(times, runs):
    share = share_of_runs(np.arange(runs) < times)
    low, high = binomtest(times, runs).proportion_ci(0.95)
    assert (share.mean, share.seeds) == (times / runs, runs)
    np.testing.assert_allclose([share.low, share.high], [low, high])
