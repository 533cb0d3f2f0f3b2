"""The problem of our numeric checks: 6 states, 3 actions, gamma = 0.9."""

import jax
import numpy as np

from experiments.inverse_soft_rl.soft_bellman import invariant_law, soft_control

DISCOUNT = 0.9


def problem():
    """Transitions `[6, 3, 6]` and rewards `[6, 3]`."""
    random = np.random.default_rng(0)
    return random.dirichlet(np.ones(6), size=(6, 3)), random.normal(size=(6, 3))


def expert():
    """Transitions, rewards, and the expert's log-policy and invariant law, in float64."""
    transitions, rewards = problem()
    with jax.enable_x64(True):
        log_policy = np.asarray(soft_control(rewards, transitions, DISCOUNT)[0])
        return transitions, rewards, log_policy, np.asarray(invariant_law(np.exp(log_policy), transitions))


def consistent_reward(log_policy, values, transitions):
    """The member of the class of consistent rewards with these values, see `least_squares_reward`."""
    return log_policy + values[:, None] - DISCOUNT * transitions @ values
