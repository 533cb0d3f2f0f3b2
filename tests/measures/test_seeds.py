import numpy as np
import pytest

from ipsrl.measures.seeds import mean_over_seeds


def test_interval_covers_the_true_mean_about_as_often_as_it_says():
    values = np.random.default_rng(1).normal(size=(20, 2000))
    interval = mean_over_seeds(values, resamples=1000)
    covered = np.mean((interval.low <= 0) & (interval.high >= 0))
    assert 0.90 < covered < 0.96
    narrow = mean_over_seeds(values, level=0.5, resamples=1000)
    assert 0.42 < np.mean((narrow.low <= 0) & (narrow.high >= 0)) < 0.54


def test_three_seeds_give_their_range():
    interval = mean_over_seeds(np.array([0.45, 0.5, 0.52]))
    assert (interval.low, interval.high) == pytest.approx((0.45, 0.52))
    assert str(interval) == "0.49 [0.45, 0.52]"


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


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="finite"):
        mean_over_seeds(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="at least one seed"):
        mean_over_seeds(np.array([]))
    with pytest.raises(ValueError, match="level"):
        mean_over_seeds(np.array([1.0, 2.0]), level=95)
