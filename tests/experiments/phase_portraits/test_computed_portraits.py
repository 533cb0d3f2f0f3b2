import dataclasses

import numpy as np
import pytest

from experiments.phase_portraits.computed_portraits import portrait, spread_starts
from ipsrl import objectives
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.portraits import Portrait, lattice

NOTHING = Portrait("none", (1.0, 0.6, 0.3), 6, np.zeros((28, 3)), np.zeros(28, bool), [], [], [])


@pytest.mark.slow
def test_expected_return_flows_to_the_best_outcome():
    rewards = np.array([1.0, 0.6, 0.3])
    field = Field(objectives.make("reinforce"), tuple(rewards.tolist()), group_size=3)
    found = portrait("reinforce", field, 6, spread_starts(2, seed=0))
    policies = found.policies
    logits = policies * (rewards - (policies @ rewards)[:, None])
    # Rewards are float32 in the objective.
    expected = policies * (logits - (policies * logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.velocity, expected, atol=1e-7)
    assert [path[-1] for path in found.paths] == [pytest.approx([1, 0, 0], abs=1e-3)] * 2
    assert found.finished == [True, True]
    assert [point.probs.tolist() for point in found.attracting] == [[1, 0, 0]]
    assert found.resting_edges == []


def test_lattice_holds_every_multiple_once():
    policies = lattice(4)
    assert len(np.unique(policies, axis=0)) == len(policies) == 15
    np.testing.assert_allclose(policies.sum(axis=1), 1)
    assert (np.sort(policies, axis=1)[:, :2] == 0).all(axis=1).sum() == 3


def test_starts_cover_the_triangle():
    starts = spread_starts(400, seed=1)
    np.testing.assert_allclose(starts.sum(axis=1), 1)
    assert starts.min() > 0
    # The mean of an even spread, and its share above one half of each outcome.
    np.testing.assert_allclose(starts.mean(axis=0), 1 / 3, atol=0.01)
    np.testing.assert_allclose((starts > 0.5).mean(axis=0), 1 / 4, atol=0.01)
    np.testing.assert_array_equal(starts, spread_starts(400, seed=1))
    assert not np.array_equal(starts, spread_starts(400, seed=2))


def test_resting_edges_are_those_on_which_nothing_moves():
    policies = lattice(6)
    for rewards, edges in (((1.0, 1.0, 0.5), [(0, 1)]), ((0.5, 1.0, 1.0), [(1, 2)]), ((1.0, 0.6, 0.3), [])):
        gains = np.array(rewards) - (policies @ rewards)[:, None]
        moves = np.abs(policies * gains).max(axis=1) > 1e-9
        assert dataclasses.replace(NOTHING, moves=moves).resting_edges == edges
    assert NOTHING.rests_everywhere
