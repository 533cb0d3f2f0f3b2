import numpy as np
import pytest
from scipy.stats import spearmanr

from experiments.transfer.rank_correlation import rank_correlation

EXACT = np.array([1.0, 2.0, 3.0, 4.0])


def test_four_subjects_of_which_two_change_places():
    # 1 - 6 (0 + 0 + 1 + 1) / (4 (16 - 1)); without one of the two, three subjects agree or two of three do.
    found = rank_correlation(EXACT, np.array([10.0, 20.0, 40.0, 30.0]))
    assert found.interval.mean == found.interval.low == found.interval.high == pytest.approx(0.8)
    assert (found.interval.seeds, found.subjects) == (0, 4)
    assert (found.least, found.most) == pytest.approx((0.5, 1.0))


def test_a_subject_without_which_a_place_is_constant_is_not_left_out():
    for first in (np.array([4.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 4.0])):
        found = rank_correlation(first, EXACT)
        assert (found.least, found.most) == pytest.approx((np.sign(first[-1] - 2) * 3**0.5 / 2,) * 2)


def test_ties_share_ranks_as_in_scipy():
    first, second = np.array([1.0, 1.004, 2.0, 3.0, 5.0]), np.array([2.0, 7.0, 1.0, 8.0, 8.0])
    assert rank_correlation(first, second).interval.mean == pytest.approx(spearmanr(np.round(first, 2), second)[0])


def test_means_over_seeds_are_compared_and_noise_makes_an_interval():
    # What a seed does to all subjects alike changes no rank.
    found = rank_correlation(EXACT, np.stack([EXACT - 9, EXACT, EXACT + 9]))
    assert (found.interval.mean, found.interval.low, found.interval.high, found.interval.seeds) == (1, 1, 1, 3)
    # One in four resamples has the first seed twice, in which the last two change places: a correlation of 0.8.
    found = rank_correlation(EXACT, np.array([[1.0, 2.0, 3.1, 3.0], [1.0, 2.0, 3.0, 5.0]]))
    assert (found.interval.mean, found.interval.low, found.interval.high) == pytest.approx((1, 0.8, 1))
    assert np.isnan(rank_correlation(EXACT, EXACT[None]).interval.low)


def test_both_places_are_resampled_by_themselves():
    # Each order is 1, 2, 3, 4 or, in one of four resamples, 1, 2, 4, 3: they differ in six of sixteen.
    noisy = np.array([[1.0, 2.0, 3.1, 3.0], [1.0, 2.0, 3.0, 5.0]])
    assert rank_correlation(noisy, noisy).interval.low == pytest.approx(0.8)


def test_what_cannot_be_correlated_is_refused():
    assert np.isnan(rank_correlation(np.ones(4), EXACT).interval.mean)
    for wrong in (EXACT[:3], np.zeros((0, 4)), np.zeros((2, 2, 4))):
        with pytest.raises(ValueError, match=r"they must be \[seed, subject\] with 4 or more"):
            rank_correlation(wrong, EXACT)
    with pytest.raises(ValueError, match="first has 4 subjects and second 5: give the same ones"):
        rank_correlation(EXACT, np.arange(5.0))
