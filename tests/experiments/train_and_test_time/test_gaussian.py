"""Arms on a line under a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from experiments.train_and_test_time.gaussian import Gaussian
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.state_table import log_probs_table
from ipsrl.rollouts.sampler import sample_groups


def test_probabilities_are_the_density_at_the_arms():
    policy, bandit = Gaussian(2, 21, std=2.0), Bandit(((1.0,) * 21,) * 2)
    parameters = {"mean": jnp.array([10.0, 4.5]), "log_std": jnp.log(jnp.array([2.0, 0.7]))}
    density = norm.pdf(np.arange(21), [[10.0], [4.5]], [[2.0], [0.7]])
    probs = np.exp(log_probs_table(policy, parameters, bandit))
    assert probs == pytest.approx(density / density.sum(axis=-1, keepdims=True), abs=1e-5)
    first = np.exp(log_probs_table(policy, policy.init(jax.random.key(0)), bandit))
    assert first[0] == pytest.approx(probs[0], abs=1e-5)


def test_the_gradient_of_an_action_is_that_of_a_gaussian():
    """d log p / d mean = (a - mean) / std^2, d log p / d log std = ((a - mean) / std)^2 - 1."""
    policy, bandit = Gaussian(1, 41, std=3.0), Bandit((1.0,) * 41)
    parameters = policy.init(jax.random.key(0))
    sampled = sample_groups(bandit, policy, parameters, bandit.prompts(jnp.zeros(1, jnp.int32)), jax.random.key(1), 1)
    action = int(sampled.tokens[0, 0, 0])
    gradient = jax.grad(lambda parameters: policy.score(parameters, sampled, 1.0).log_probs.sum())(parameters)
    distance = (action - 20) / 3.0
    assert float(gradient["mean"][0]) == pytest.approx(distance / 3.0, abs=1e-3)
    assert float(gradient["log_std"][0]) == pytest.approx(distance**2 - 1, abs=1e-3)
