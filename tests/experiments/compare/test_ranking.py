import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.compare import ranking
from experiments.compare.ranking import shared_ranks
from ipsrl.measures.seeds import Interval
from tests.compared_records import made_up


def test_ranks_are_by_effective_outcomes_among_those_that_reach_the_bar():
    records = made_up(
        {
            ("lazy", 0.1): ((0.4, 0.5), (4.0, 4.0)),
            ("best", 0.1): ((0.8, 1.0), (1.19, 1.21)),
            ("best", 0.2): ((0.9, 1.0), (1.0, 1.2)),
            ("diverse", 0.1): ((0.8, 0.9), (3.0, 3.2)),
            ("as diverse", 0.1): ((0.9, 0.8), (3.1, 3.3)),
            ("idle", 0.1): ((0.1, 0.1), (5.0, 5.0)),
            ("idle", 0.2): ((0.2, 0.2), (4.5, 4.5)),
            ("diverged", 0.1): ((0.9, float("nan")), (1.0, 1.0)),
        }
    )
    results, bar = ranking.ranked(records)
    # The best objective here earns 0.95 of the best possible reward.
    assert bar == pytest.approx(0.9 * 0.9 * 0.95)
    ranks = {result.name: result.rank for result in results}
    assert ranks == {"as diverse": 1, "diverse": 1, "best": 3, "idle": None, "lazy": None}
    assert list(ranks) == ["as diverse", "diverse", "best", "idle", "lazy"]
    # Of rates at which the bar is reached, the one that leaves most; of others, the one that earns most.
    rates = {result.name: result.records.distinct("learning_rate") for result in results}
    assert (rates["best"], rates["idle"]) == ([0.1], [0.2])
    assert results[2].outcomes == pytest.approx(1.2)
    with pytest.raises(ValueError, match="every run diverged"):
        ranking.ranked(records.where(objective="diverged"))


def test_no_policy_is_ranked_that_has_hardly_learned():
    records = made_up(
        {
            ("untrained", 0.1): ((0.5, 0.5), (9.0, 9.0)),
            ("lucky", 0.1): ((0.54, 0.55), (8.0, 8.0)),
            ("learned", 0.1): ((0.55, 0.57), (7.0, 7.0)),
        }
    )
    results, bar = ranking.ranked(records)
    assert bar == pytest.approx(0.5 + 0.1 * 0.5)
    assert {result.name: result.rank for result in results} == {"learned": 1, "untrained": None, "lucky": None}


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
    assert shared_ranks([interval(2, 1, 3), alone[2], alone[0], Interval(0.9, np.nan, np.nan, 1)]) == [
        1,
        1,
        1,
        4,
    ]


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
