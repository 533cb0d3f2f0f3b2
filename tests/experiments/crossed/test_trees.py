import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.crossed.trees import Trees, prior_probs
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular

TREES = Trees(Tree(), ((1.0, 1.0, 0.0, 0.0), (0.0, 1.0, 1.0, 0.0)))
PROBS = jax.jit(outcome_probs, static_argnums=(0, 1))
TABLE = Tabular(TREES.num_observations, TREES.vocabulary_size)


def test_prompts_are_copies_of_a_tree_that_share_only_outcomes():
    one = Tree()
    inside = one.num_observations
    states, tokens = jnp.arange(inside)[:, None], jnp.arange(one.vocabulary_size)
    alone, copied = np.asarray(one.step(states, tokens)), np.asarray(TREES.step(states + inside, tokens))
    np.testing.assert_array_equal(copied, alone + inside)
    np.testing.assert_array_equal(TREES.legal(states[:, 0] + inside), one.legal(states[:, 0]))
    ends = jnp.arange(TREES.num_observations, TREES.num_observations + TREES.num_outcomes)
    np.testing.assert_array_equal(TREES.num_parents(ends), one.num_parents(ends - inside))
    assert TREES.first_state(jnp.arange(2)).tolist() == [0, inside]


def test_uniform_walks_end_as_on_a_tree():
    one = Tree()
    alone = PROBS(one, (table := Tabular(one.num_observations, one.vocabulary_size)), table.init(jax.random.key(0)))
    for prompt in range(2):
        np.testing.assert_allclose(PROBS(TREES, TABLE, TABLE.init(jax.random.key(0)), prompt), alone, rtol=1e-6)


def test_logits_reach_the_probabilities_and_are_uniform_over_walks():
    probs = np.array([[0.7, 0.1, 0.1, 0.1], [0.01, 0.01, 0.18, 0.8]])
    logits = TREES.logits_for(probs)
    for prompt in range(2):
        found = PROBS(TREES, TABLE, {"logits": jnp.asarray(logits)}, prompt)
        np.testing.assert_allclose(found, probs[prompt], rtol=1e-5)
    # (0, 3) is reached by four walks, so that the one move of length 3 has a quarter of its probability.
    assert np.exp(logits[0, 5]) == pytest.approx(0.7 / 4, rel=1e-5)


def test_a_prior_is_right_as_often_as_asked_and_has_its_preference():
    preference = np.array([[3.0, 1.0, 9.0, 9.0], [9.0, 1.0, 1.0, 9.0]])
    found = prior_probs(TREES.reward_table() > 0, np.array([0.4, 0.02]), preference)
    np.testing.assert_allclose(found, [[0.3, 0.1, 0.3, 0.3], [0.49, 0.01, 0.01, 0.49]])
