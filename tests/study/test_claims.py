"""Claims that intervals decide."""

import math

import pytest

from ipsrl.measures.seeds import Interval
from ipsrl.study.claims import alike, all_of, any_of, close

HIGH, LOW, WIDE = Interval(0.9, 0.85, 0.95, 5), Interval(0.5, 0.45, 0.55, 5), Interval(0.6, 0.5, 0.88, 5)
ONE_SEED = Interval(0.9, math.nan, math.nan, 1)


@pytest.mark.parametrize(
    ("one", "other", "by", "expected"),
    [
        (HIGH, LOW, 0.0, True),
        (LOW, HIGH, 0.0, False),
        (HIGH, WIDE, 0.0, None),
        (HIGH, LOW, 0.35, None),
        (HIGH, LOW, 0.51, False),
        (HIGH, HIGH, -0.11, True),
        (LOW, HIGH, -0.51, True),
        (ONE_SEED, LOW, 0.0, None),
        (HIGH, 0.8, 0.0, True),
        (HIGH, 0.9, 0.0, None),
    ],
)
def test_one_mean_exceeds_another_if_the_intervals_say_so(one, other, by, expected):
    assert one.exceeds(other, by) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [([True, True], True), ([True, None], None), ([None, False], False), ([], None)],
)
def test_all_of_three_values(found, expected):
    assert all_of(iter(found)) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [([False, True], True), ([None, True], True), ([None, False], None), ([False], False), ([], None)],
)
def test_any_of_three_values(found, expected):
    assert any_of(iter(found)) is expected


def test_two_means_are_close_if_neither_exceeds_the_other():
    assert close(HIGH, LOW, 0.6) is True
    assert close(HIGH, LOW, 0.2) is False
    assert close(LOW, HIGH, 0.2) is False
    assert close(HIGH, LOW, 0.4) is None
    assert close(HIGH, 0.0, 1.0) is True
    assert close(ONE_SEED, 0.0, 1.0) is None


def test_alike_is_by_outer_and_inner_ends():
    def of(low, high):
        return Interval((low + high) / 2, low, high, 5)

    assert alike([of(1.0, 1.02), of(1.03, 1.05)], 0.1) is True
    assert alike([of(1.0, 1.2), of(1.5, 1.6)], 0.1) is False
    assert alike([of(1.0, 2.0), of(1.9, 3.0)], 0.1) is None
