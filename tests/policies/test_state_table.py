"""Tabular and MLP policies on whole environments: scores, steps and tables say the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.mlp import MLP
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.sampler import sample_groups

GRID = Hypergrid(dimensions=2, side=3)
TREE = Tree()
CASES = [
    (Tabular(GRID.num_observations, GRID.vocabulary_size), GRID),
    (MLP(GRID.features, GRID.num_features, GRID.vocabulary_size, (8,)), GRID),
    (Tabular(TREE.num_observations, TREE.vocabulary_size), TREE),
]
every_case = pytest.mark.parametrize(
    ("policy", "environment"), CASES, ids=["tabular-hypergrid", "mlp-hypergrid", "tabular-tree"]
)


def random_parameters(policy):
    """Noise, because a table starts at zero."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(scale=0.7, size=leaf.shape).astype(np.float32), shapes)


def sample(policy, parameters, environment, temperature):
    """One group of the first prompt."""
    prompts = environment.prompts(jnp.array([0]))
    return jax.device_get(
        sample_groups(environment, policy, parameters, prompts, jax.random.key(2), 16, Decoding(temperature))
    )


@every_case
def test_scores_equal_the_log_probabilities_of_the_steps(policy, environment):
    parameters = random_parameters(policy)
    trajectories = sample(policy, parameters, environment, temperature=0.5)
    assert not trajectories.truncated.any()

    def scored(parameters):
        scores = policy.score(parameters, trajectories, 0.5)
        return scores.log_probs.sum(), scores

    gradient, scores = jax.device_get(jax.jit(jax.grad(scored, has_aux=True))(parameters))
    np.testing.assert_allclose(scores.log_probs, trajectories.behaviour_log_probs, rtol=1e-5, atol=1e-6)
    assert not scores.log_probs[~trajectories.token_mask].any()
    assert not scores.entropy[~trajectories.token_mask].any()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@every_case
def test_table_holds_the_scores_of_every_state(policy, environment):
    parameters = random_parameters(policy)
    table = np.asarray(jax.jit(log_probs_table, static_argnums=(0, 2))(policy, parameters, environment))
    assert table.shape == (environment.num_observations, environment.vocabulary_size)
    legal = environment.legal(jnp.arange(environment.num_observations))
    np.testing.assert_array_equal(np.isfinite(table), legal)
    np.testing.assert_allclose(np.exp(table).sum(-1), 1.0, rtol=1e-5)
    trajectories = sample(policy, parameters, environment, temperature=1.0)
    looked_up = table[trajectories.observations, trajectories.tokens]
    np.testing.assert_allclose(
        np.where(trajectories.token_mask, looked_up, 0.0), trajectories.behaviour_log_probs, rtol=1e-5, atol=1e-6
    )


def test_rows_of_a_bandit_are_its_prompts():
    bandit = Bandit(((1.0, 0.0), (0.25, 0.5)))
    policy = Tabular(2, 2, initial_logits=((0.0, 0.0), (0.0, float(np.log(3)))))
    table = log_probs_table(policy, policy.init(jax.random.key(0)), bandit)
    np.testing.assert_allclose(jnp.exp(table), [[0.5, 0.5], [0.25, 0.75]], rtol=1e-6)
