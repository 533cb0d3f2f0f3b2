from ipsrl.measures.seeds import Interval
from ipsrl.study.claims import alike, all_of, within


def of(low, high):
    return Interval((low + high) / 2, low, high, 5)


NONE = Interval(float("nan"), float("nan"), float("nan"), 5)


def test_one_that_fails_decides_for_all():
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False]) is False


def test_exceeds_is_by_intervals():
    assert [of(2, 3).exceeds(other) for other in (of(0, 1), of(4, 5), of(1, 2.5), NONE)] == [True, False, None, None]


def test_within_is_by_both_ends():
    ends = [of(-0.1, 0.2), of(0.3, 0.4), of(-0.5, -0.4), of(0.1, 0.3), NONE]
    assert [within(end, 0.2) for end in ends] == [True, False, False, None, None]


def test_alike_needs_near_means_and_intervals_that_overlap():
    assert alike([of(1.0, 1.2), of(1.1, 1.2)], 0.1) is True
    assert alike([of(1.0, 1.2), of(1.3, 1.4)], 0.9) is False
    assert alike([of(1.0, 2.0), of(1.9, 3.0)], 0.1) is None
