import jax
import numpy as np
import pytest
from scipy.special import logsumexp

from experiments.inverse_soft_rl.soft_bellman import invariant_law, policy_values, regret, soft_control
from tests.experiments.inverse_soft_rl.problems import problem


@pytest.mark.parametrize(("discount", "scale"), [(0.0, 1.0), (0.9, 1.0), (0.9, 20.0), (0.99, 3.0)])
def test_soft_control_is_where_value_iteration_ends(discount, scale):
    transitions, rewards = problem()
    rewards = scale * rewards
    values = np.zeros(6)
    for _ in range(4000):
        q = rewards + discount * transitions @ values
        values = logsumexp(q, axis=1)
    with jax.enable_x64(True):
        log_policy, found = map(np.asarray, soft_control(rewards, transitions, discount))
        of_policy = np.asarray(policy_values(log_policy, rewards, transitions, discount))
    np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(log_policy, q - values[:, None], atol=1e-10 * scale)
    np.testing.assert_allclose(of_policy, values, rtol=1e-12, atol=1e-12)


def test_one_state_by_hand():
    """r = (1, 0), gamma = 0.5: V = log(e + 1) / 0.5, and the uniform policy has (0.5 + log 2) / 0.5."""
    transitions, rewards = np.ones((1, 2, 1)), np.array([[1.0, 0.0]])
    with jax.enable_x64(True):
        log_policy, values = soft_control(rewards, transitions, 0.5)
        lost = regret(np.full((1, 2), -np.log(2)), rewards, transitions, 0.5)
        certain = policy_values(np.array([[0.0, -np.inf]]), rewards, transitions, 0.5)
    np.testing.assert_allclose(certain, 2.0)
    np.testing.assert_allclose(np.exp(log_policy), [[np.e / (np.e + 1), 1 / (np.e + 1)]])
    np.testing.assert_allclose(values, 2 * np.log(np.e + 1))
    np.testing.assert_allclose(lost, np.log(np.e + 1) - 0.5 - np.log(2))


def test_the_invariant_law_stays_and_a_split_chain_has_none():
    transitions, _ = problem()
    policy = np.full((6, 3), 1 / 3)
    with jax.enable_x64(True):
        law = np.asarray(invariant_law(policy, transitions))
        two_classes = np.asarray(invariant_law(np.ones((2, 1)), np.eye(2)[:, None]))
    np.testing.assert_allclose(np.einsum("sa,sat->t", law, transitions), law.sum(axis=1), atol=1e-15)
    assert law.sum() == pytest.approx(1, abs=1e-14)
    assert not np.isfinite(two_classes).all()
