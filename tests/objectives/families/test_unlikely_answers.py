"""Objectives that favour unlikely correct answers, by numbers derived by hand from the papers' formulas."""

import jax.numpy as jnp
import numpy as np

from ipsrl.objectives.catalog.unlikely_answers import UniformCorrect, Unlikeliness
from tests.objectives.groups import advantages_of, assert_close, rollouts_of, shaped


def test_ranks_go_by_the_average_token_and_ties_share_theirs():
    behaviour = np.log([[0.2, 1, 1], [0.4, 0.4, 1], [0.5, 0.5, 0.5], [0.5, 0.7, 0.7]])
    mask = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 0]]
    expected = np.array([1, 1 - 0.0625, 2 * (1 - 2.5 * 0.0625), 1 - 2.5 * 0.0625])
    rewards = [1, 1, 2, 1]
    assert_close(shaped(Unlikeliness(), rewards, behaviour=behaviour, mask=mask), expected)
    assert_close(shaped(Unlikeliness(beta=0.0), rewards, behaviour=behaviour, mask=mask), rewards)


def test_unlikely_correct_answers_get_the_larger_share():
    """q = (2/3, 1/3) of two correct answers: weights 1 - tau + tau (2/3, 4/3), whatever their length."""
    behaviour = np.log([[[0.5, 0.5], [0.25, 1.0], [0.9, 1.0]], [[0.5, 0.5], [0.25, 1.0], [0.9, 1.0]]])
    mask = np.array([[[1, 1], [1, 0], [1, 0]]] * 2)
    rollouts = rollouts_of(behaviour, mask, rewards=np.float32([[1, 1, 0], [0, 0, 0]]))
    for tau in (0.2, 1.0):
        weights = UniformCorrect(tau)(jnp.ones((2, 3, 2)), rollouts)[..., 0]
        assert_close(weights, [[1 - tau / 3, 1 + tau / 3, 1], [1, 1, 1]])


def test_unlikely_answers_gain_if_they_are_correct_and_lose_if_they_are_wrong():
    """Answers have two tokens each: log mu is log 1/4 and log 1/16."""
    behaviour = np.log(np.array([[[0.5, 0.5], [0.25, 0.25], [0.5, 0.5], [0.25, 0.25]]]))
    group = rollouts_of(behaviour, rewards=np.float32([[1, 1, 0, 0]]))
    found = advantages_of("differential_smoothing(positive=0.5, negative=0.25)", group)
    assert_close(found, [[1 + np.log(2), 1 + np.log(4), -1 - np.log(2) / 2, -1 - np.log(2)]])
