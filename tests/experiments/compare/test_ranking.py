"""The ranking: which objectives are in it, their order, and the learning rate that counts."""

import pytest

from experiments.compare import ranking
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
