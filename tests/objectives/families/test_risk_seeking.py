"""Objectives of the best of several answers, by numbers and identities derived by hand."""

import numpy as np

from tests.objectives.groups import advantages_of, assert_close, rollouts_of


def groups(*rewards):
    rewards = np.float32(rewards)
    return rollouts_of(np.zeros((*rewards.shape, 1)), rewards=rewards)


def test_large_exponents_do_not_overflow():
    assert_close(advantages_of("rs_grpo(beta=50.0)", groups([90, 100, 0, -100])), np.array([[-1, 3, -1, -1]]) / 50)
