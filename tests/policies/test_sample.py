"""Actions are sampled from the distribution given, whether there are few or many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ipsrl.policies.policy import sample


@pytest.mark.parametrize("actions", [7, 4096, 5003])
def test_frequencies_are_the_probabilities(actions):
    """Most probability lies on a few actions of several blocks, some of them impossible."""
    rng = np.random.default_rng(0)
    likely = rng.choice(actions, 6, replace=False)
    logits = np.full(actions, -9.0, np.float32)
    logits[likely] = [2.0, 1.5, 1.0, 0.0, -np.inf, -np.inf]
    log_probs = jax.nn.log_softmax(jnp.asarray(logits))
    samples, count = 4000, np.zeros(actions)
    drawn = jax.jit(lambda key: sample(key, jnp.broadcast_to(log_probs, (samples, actions))))(jax.random.key(1))
    np.add.at(count, np.asarray(drawn), 1)
    assert not count[likely[-2:]].any()
    expected = samples * np.exp(np.asarray(log_probs, np.float64))
    rest = np.setdiff1d(np.arange(actions), likely)
    observed = [*count[likely[:4]], count[rest].sum()]
    expected = [*expected[likely[:4]], expected[rest].sum()]
    assert stats.chisquare(observed, np.array(expected) * samples / sum(expected)).pvalue > 1e-3


def test_rows_and_stages_are_independent():
    """Two halves of equal probability, each of two actions: all four come up, and rows differ."""
    log_probs = jnp.full((2000, 8192), -jnp.inf).at[:, jnp.array([3, 200, 5000, 5001])].set(jnp.log(0.25))
    drawn = np.asarray(sample(jax.random.key(0), log_probs))
    actions, counts = np.unique(drawn, return_counts=True)
    assert actions.tolist() == [3, 200, 5000, 5001]
    assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.chisquare(np.unique(2 * (drawn[:-1] > 4096) + (drawn[1:] > 4096), return_counts=True)[1]).pvalue > 1e-3
