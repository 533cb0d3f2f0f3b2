import numpy as np
import pytest

from experiments.transfer.paths import path
from ipsrl import objectives
from ipsrl.dynamics.field import Field, follow

REWARDS, START = (1.0, 1.0, 0.0), (0.4, 0.2, 0.4)


def field_of(objective, rewards=REWARDS):
    return Field(objectives.make(objective), rewards, 4)


def test_a_step_changes_the_logit_that_moves_most_by_its_length():
    probs = path(field_of("grpo"), START, 0.1, 20)
    assert probs.shape == (21, 3)
    np.testing.assert_allclose(probs[0], START)
    logits = np.log(probs)
    velocity = field_of("grpo")(logits[5:6])[0]
    moved = logits[6] - logits[5]
    np.testing.assert_allclose(moved - moved[0], 0.1 * (velocity - velocity[0]) / np.abs(velocity).max(), atol=1e-9)


def test_the_path_is_that_of_the_flow():
    probs, flow = path(field_of("grpo"), START, 0.01, 400), follow(field_of("grpo"), [START], 200.0)
    rewards, reached = probs[:, :2].sum(axis=1), flow.distributions[:, 0]
    for reward in (0.7, 0.9, 0.95):
        ours = np.interp(reward, rewards, probs[:, 1])
        assert ours == pytest.approx(np.interp(reward, reached[:, :2].sum(axis=1), reached[:, 1]), abs=1e-3)


def test_where_nothing_moves_the_policy_stays_and_at_a_rest_point_within_a_step():
    np.testing.assert_allclose(path(field_of("grpo", (1.0, 1.0, 1.0)), START, 0.1, 5), [START] * 6)
    end = path(field_of("ips_grpo"), START, 0.02, 400)[-1]
    assert end[0] / end[1] == pytest.approx(1.0, abs=0.05)
