import numpy as np
import pytest

from ipsrl.integrations.guest import OF_RIGHT, GuestObjective
from ipsrl.integrations.metrics import group_measures
from ipsrl.integrations.rows import Rows

ONE_RIGHT = np.array([[1, 0.01, 0.01, 0.01]])


@pytest.mark.parametrize(
    ("rewards", "right_above", "first", "all_four"),
    [(ONE_RIGHT, 0.5, 0.25, 1), (ONE_RIGHT, 0.0, 1, 1), ([[0.01] * 4], 0.5, 0, 0)],
)
def test_right_is_what_lies_above_the_threshold(rewards, right_above, first, all_four):
    found = group_measures(rewards, np.array([[0, 1, 2, 3]]), right_above)
    assert (found["pass@1"], found["pass@4"], found["right_above"]) == (first, all_four, right_above)


def test_where_nothing_says_what_is_right_there_are_no_measures_of_it_but_a_warning():
    with pytest.warns(UserWarning, match="do not say which answers are right.*: give right_above"):
        assert group_measures(ONE_RIGHT, np.array([[0, 1, 2, 3]])) == {}
    for rewards in ([[2, 0, 0, -1]], [[0, 0, 0, 0]], np.array([[0.3, 0.1 + 0.2, 0, 0]])):
        found = group_measures(rewards, np.array([[0, 1, 2, 3]]))
        assert found["right_above"] == 0
        assert found["pass@1"] == (np.array(rewards) > 0).mean()


@pytest.mark.parametrize(("right_above", "known"), [(None, False), (0.5, True)])
def test_metrics_of_right_answers_are_left_out_with_them(right_above, known):
    guest = GuestObjective("reinforce", 4, "a trainer", right_above=right_above)
    ids, tokens = np.arange(4, dtype=np.int32), np.ones((4, 1), np.int32)
    rows = Rows(np.zeros(4, np.int32), np.float32(ONE_RIGHT[0]), ids, tokens, tokens > 0, np.zeros(4, bool))
    _, metrics = guest.weigh(rows)
    assert {name in metrics for name in OF_RIGHT} == {known}
    assert "reward" in metrics


def test_diversity_is_that_of_right_answers():
    found = group_measures(np.array([[1, 1, 0.2, 0.2]]), np.array([[0, 1, 2, 3]]), 0.5)
    assert found["pcmd"] == 0.5
    assert "pcmd" not in group_measures(np.array([[0.2, 0.2]]), np.array([[0, 1]]), 0.5)
