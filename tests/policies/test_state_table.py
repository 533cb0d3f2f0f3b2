"""Tabular and MLP policies on whole environments: scores, steps and tables say the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.bandit import Bandit
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.environments.tree import Tree
from ipsrl.policies.mlp import MLP
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
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


def table_of(policy, parameters, environment):
    return np.asarray(jax.jit(log_probs_table, static_argnums=(0, 2))(policy, parameters, environment))


def sample(policy, parameters, environment, group_size, temperature=1.0):
    """One group of the first prompt."""
    prompts = environment.prompts(jnp.array([0]))
    return jax.device_get(
        sample_groups(environment, policy, parameters, prompts, jax.random.key(2), group_size, temperature)
    )


@every_case
def test_scores_equal_the_log_probabilities_of_the_steps(policy, environment):
    temperature = 0.5
    parameters = random_parameters(policy)
    trajectories = sample(policy, parameters, environment, 16, temperature)
    assert not trajectories.truncated.any()

    def scored(parameters):
        scores = policy.score(parameters, trajectories, temperature)
        return scores.log_probs.sum(), scores

    gradient, scores = jax.device_get(jax.jit(jax.grad(scored, has_aux=True))(parameters))
    np.testing.assert_allclose(scores.log_probs, trajectories.behaviour_log_probs, rtol=1e-5, atol=1e-6)
    assert not scores.log_probs[~trajectories.token_mask].any()
    assert not scores.entropy[~trajectories.token_mask].any()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@every_case
def test_table_holds_the_scores_of_every_state(policy, environment):
    parameters = random_parameters(policy)
    table = table_of(policy, parameters, environment)
    assert table.shape == (environment.num_observations, environment.vocabulary_size)
    legal = environment.legal(jnp.arange(environment.num_observations))
    np.testing.assert_array_equal(np.isfinite(table), legal)
    np.testing.assert_allclose(np.exp(table).sum(-1), 1.0, rtol=1e-5)
    trajectories = sample(policy, parameters, environment, 16)
    looked_up = table[trajectories.observations, trajectories.tokens]
    np.testing.assert_allclose(
        np.where(trajectories.token_mask, looked_up, 0.0), trajectories.behaviour_log_probs, rtol=1e-5, atol=1e-6
    )


@every_case
def test_sampled_outcomes_follow_the_exact_distribution(policy, environment):
    parameters = random_parameters(policy)
    group_size = 4000
    outcomes = environment.verify(sample(policy, parameters, environment, group_size)).outcome_id[0]
    frequencies = np.bincount(outcomes, minlength=environment.num_outcomes) / group_size
    probs = np.asarray(jax.jit(environment.terminal_distribution)(table_of(policy, parameters, environment)))
    standard_error = np.sqrt(probs * (1 - probs) / group_size)
    np.testing.assert_array_less(np.abs(frequencies - probs), 4.5 * standard_error + 1e-6)


@every_case
def test_distribution_is_differentiable_in_the_parameters(policy, environment):
    def expected_reward(parameters):
        probs = environment.terminal_distribution(log_probs_table(policy, parameters, environment))
        return probs @ environment.reward_table()[0]

    parameters = random_parameters(policy)
    climb = jax.jit(jax.value_and_grad(expected_reward))
    before, gradient = jax.device_get(climb(parameters))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    uphill = jax.tree.map(lambda leaf, slope: leaf + np.float32(0.1) * slope, parameters, gradient)
    assert climb(uphill)[0] > before


def test_rows_of_a_bandit_are_its_prompts():
    bandit = Bandit(((1.0, 0.0), (0.25, 0.5)))
    policy = Tabular(2, 2, initial_logits=((0.0, 0.0), (0.0, float(np.log(3)))))
    table = log_probs_table(policy, policy.init(jax.random.key(0)), bandit)
    np.testing.assert_allclose(jnp.exp(table), [[0.5, 0.5], [0.25, 0.75]], rtol=1e-6)
