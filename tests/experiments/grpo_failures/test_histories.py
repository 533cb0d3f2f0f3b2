import numpy as np
import pytest

from experiments.grpo_failures.histories import firing, has_lost, logits_of_runs, measures, silent_groups, spread
from ipsrl.records.monitors import LowEntropy
from ipsrl.study import EnsembleSettings


def test_the_start_gives_half_of_the_probability_to_right_outcomes():
    found = measures(spread(2, 6), 2)
    assert found["accuracy"] == pytest.approx(0.5)
    one = measures(spread(1, 8), 1)
    assert one["entropy"] == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(14))
    assert one["effective"] == pytest.approx(1)


def test_outcomes_are_lost_if_half_of_those_beyond_the_first_are():
    even, two, one = [0.0, 0.0, 0.0, -9.0], [0.0, 0.0, -99.0, -9.0], [0.0, -99.0, -99.0, -9.0]
    # 3, 2 and 1 of 3 right outcomes: 2, 1 and 0 beyond the first.
    assert has_lost(np.array([even, two, one]), 3).tolist() == [False, True, True]
    assert not has_lost(np.array(one), 1)


def test_a_group_is_silent_if_the_policy_stays():
    stays, moves = [0.0, 0.0], [1.0, 0.0]
    found = silent_groups(np.array([[stays, stays, moves, moves, moves]]), 1, group_size=2, windows=2)
    p = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(found["silent"], [[0.5, 1.0]])
    np.testing.assert_allclose(found["exact"], [[0.5, p**2 + (1 - p) ** 2]])


def test_monitors_fire_by_their_own_rule():
    entropy = np.array([[2.0, 0.1, 0.1, 0.1, 2.0, 2.0, 2.0], [2.0] * 7])
    fires = firing(LowEntropy(below=0.5, steps=2), entropy)
    assert fires.tolist() == [[False, False, True, True, True, False, False], [False] * 7]


def test_each_run_has_its_start_and_its_seed():
    settings = EnsembleSettings(("grpo",), (1, 2), group_size=8, steps=3, record_every=1)
    starts = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = logits_of_runs("grpo", 1, starts, settings)
    assert found.shape == (2, 4, 3)
    np.testing.assert_array_equal(found[:, 0], starts)
    again = logits_of_runs("grpo", 1, starts, settings, seeds=(7, 2))
    np.testing.assert_array_equal(found[1], again[1])
    assert (found[0] != again[0]).any()
