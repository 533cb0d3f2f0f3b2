import jax
import numpy as np
import pytest

from experiments.inverse_soft_rl.rewards import least_squares_reward, norm
from experiments.inverse_soft_rl.soft_bellman import soft_control
from tests.experiments.inverse_soft_rl.problems import DISCOUNT, consistent_reward, expert


def least_squares(log_policy, transitions, law, discount=DISCOUNT):
    with jax.enable_x64(True):
        return np.asarray(least_squares_reward(log_policy, transitions, law, discount))


def resolved(reward, transitions, discount=DISCOUNT):
    with jax.enable_x64(True):
        return tuple(map(np.asarray, soft_control(reward, transitions, discount)))


def test_soft_control_of_the_least_squares_reward_is_the_expert():
    """The check of our notes: the same policy to 1e-15, and a norm of 0.434 in the place of 0.738."""
    transitions, rewards, log_policy, law = expert()
    reward = least_squares(log_policy, transitions, law)
    again, values = resolved(reward, transitions)
    np.testing.assert_allclose(np.exp(again), np.exp(log_policy), atol=2e-15)
    np.testing.assert_allclose(consistent_reward(log_policy, values, transitions), reward, atol=1e-13)
    assert norm(reward, law) == pytest.approx(0.434, abs=5e-4)
    assert norm(rewards, law) == pytest.approx(0.738, abs=5e-4)


def test_every_member_of_the_class_has_the_expert_and_its_values():
    transitions, _, log_policy, law = expert()
    least = least_squares(log_policy, transitions, law)
    for seed in range(5):
        values = np.random.default_rng(seed).normal(size=6)
        with jax.enable_x64(True):
            reward = np.asarray(consistent_reward(log_policy, values, transitions))
        again, found = resolved(reward, transitions)
        np.testing.assert_allclose(again, log_policy, atol=1e-13)
        np.testing.assert_allclose(found, values, atol=1e-13)
        # Least squares is a projection: Pythagoras holds, and every member gives the same reward.
        assert norm(reward, law) ** 2 == pytest.approx(norm(least, law) ** 2 + norm(reward - least, law) ** 2)
        assert norm(reward, law) > norm(least, law)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99, 0.999])
def test_any_discount_below_one(discount):
    """The discount under which demonstrations are read need not be that of the expert: some reward fits any policy."""
    transitions, _, log_policy, law = expert()
    reward = least_squares(log_policy, transitions, law, discount)
    np.testing.assert_allclose(resolved(reward, transitions, discount)[0], log_policy, atol=1e-11)
