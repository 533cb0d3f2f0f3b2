"""Ranks that overlapping intervals share."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.compare.ranking import shared_ranks
from ipsrl.measures.seeds import Interval


def interval(mean, low, high, seeds=3):
    return Interval(mean, low, high, seeds)


def test_ranks_are_shared_where_intervals_overlap():
    best, close, chained, last = interval(5, 4, 6), interval(4.5, 4, 5), interval(3.9, 3.5, 3.95), interval(1, 0.5, 2)
    assert shared_ranks([last, best, chained, close]) == [4, 1, 3, 1]
    # It overlaps with the second, which shares the rank of the first, but not with the first.
    assert shared_ranks([best, interval(4.5, 3.6, 5), chained]) == [1, 1, 3]
    # Touching is overlap.
    assert shared_ranks([interval(2, 1, 3), interval(0.5, 0, 1)]) == [1, 1]
    assert shared_ranks([]) == []


def test_one_seed_has_the_rank_of_its_mean():
    alone = [Interval(mean, np.nan, np.nan, 1) for mean in (1.0, 3.0, 2.0, 3.0, 2.001)]
    assert shared_ranks(alone) == [5, 1, 3, 1, 3]
    assert shared_ranks([interval(2, 1, 3), alone[2], alone[0], Interval(0.9, np.nan, np.nan, 1)]) == [1, 1, 1, 4]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 2), st.floats(0, 2)), max_size=12), st.randoms())
def test_ranks_follow_the_means_in_any_order(values, random):
    intervals = [interval(mean, mean - below, mean + above) for mean, below, above in values]
    ranks = shared_ranks(intervals)
    for (one, rank), (other, other_rank) in itertools.product(zip(intervals, ranks, strict=True), repeat=2):
        assert one.mean <= other.mean or rank <= other_rank
    assert all(rank == 1 + sum(other < rank for other in ranks) for rank in ranks)
    if len({one.mean for one in intervals}) == len(intervals):
        shuffled = random.sample(range(len(intervals)), len(intervals))
        assert shared_ranks([intervals[i] for i in shuffled]) == [ranks[i] for i in shuffled]
