import numpy as np
import pytest
from scipy.stats import spearmanr

from ipsrl.measures.rank_correlation import rank_correlation


def test_four_subjects_of_which_two_change_places():
    # 1 - 6 (0 + 0 + 1 + 1) / (4 (16 - 1)); without one of the two, three subjects agree or two of three do.
    found = rank_correlation([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 40.0, 30.0])
    assert found.interval.mean == found.interval.low == found.interval.high == pytest.approx(0.8)
    assert (found.interval.seeds, found.subjects) == (0, 4)
    assert (found.least, found.most) == pytest.approx((0.5, 1.0))


def test_ties_share_ranks_as_in_scipy():
    first, second = [1.0, 1.004, 2.0, 3.0, 5.0], [2.0, 7.0, 1.0, 8.0, 8.0]
    assert rank_correlation(first, second).interval.mean == pytest.approx(spearmanr(np.round(first, 2), second)[0])


def test_means_over_seeds_are_compared_and_noise_makes_an_interval():
    exact = [1.0, 2.0, 3.0, 4.0]
    apart = [np.array([mean - 0.1, mean + 0.1]) for mean in exact]
    found = rank_correlation(exact, apart)
    assert (found.interval.mean, found.interval.low, found.interval.high, found.interval.seeds) == (1, 1, 1, 2)
    # One in four resamples puts the third at 3.1 above the fourth at 3.0: another order, of correlation 0.8.
    found = rank_correlation(exact, [*apart[:3], np.array([3.0, 5.0])])
    assert (found.interval.mean, found.interval.low, found.interval.high) == pytest.approx((1, 0.8, 1))
    assert np.isnan(rank_correlation(exact, [*apart[:3], np.array([4.0])]).interval.low)


def test_the_interval_covers_the_correlation_without_noise():
    rng, truth = np.random.default_rng(0), np.arange(12.0)
    covered = 0
    for _ in range(40):
        found = rank_correlation(truth, list(truth[:, None] + 0.5 * rng.normal(size=(12, 8)))).interval
        covered += found.low <= 1.0 <= found.high
    assert covered >= 36


def test_what_cannot_be_correlated_is_refused():
    assert np.isnan(rank_correlation([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]).interval.mean)
    with pytest.raises(ValueError, match="first has 3 subjects and second 3, but both need 4 or more"):
        rank_correlation([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="first has 4 subjects and second 5"):
        rank_correlation([1.0] * 4, [1.0] * 5)
    for values in (np.zeros(0), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="must have a number in first and in second"):
            rank_correlation([1.0, 2.0, 3.0, values], [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match=r"first is .*nan"):
        rank_correlation([1.0, 2.0, 3.0, np.nan], [1.0, 2.0, 3.0, 4.0])
