import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from experiments.train_and_test_time.gaussian import Gaussian
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.state_table import log_probs_table


def test_probabilities_are_the_density_at_the_arms():
    policy, bandit = Gaussian(2, 21, std=2.0), Bandit(((1.0,) * 21,) * 2)
    parameters = {"mean": jnp.array([10.0, 4.5]), "log_std": jnp.log(jnp.array([2.0, 0.7]))}
    density = norm.pdf(np.arange(21), [[10.0], [4.5]], [[2.0], [0.7]])
    probs = np.exp(log_probs_table(policy, parameters, bandit))
    assert probs == pytest.approx(density / density.sum(axis=-1, keepdims=True), abs=1e-5)
    first = np.exp(log_probs_table(policy, policy.init(jax.random.key(0)), bandit))
    assert first[0] == pytest.approx(probs[0], abs=1e-5)
