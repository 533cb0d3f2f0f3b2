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
    """Fresh parameters with noise, because a table starts at zero."""
    leaves, structure = jax.tree.flatten(policy.init(jax.random.key(0)))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noise = [jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return structure.unflatten([leaf + 0.5 * wobble for leaf, wobble in zip(leaves, noise, strict=True)])


def sample(policy, parameters, environment, group_size, temperature=1.0):
    """One group of the first prompt."""
    prompts = environment.prompts(jnp.array([0]))
    return sample_groups(environment, policy, parameters, prompts, jax.random.key(2), group_size, temperature)


@every_case
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_scores_equal_the_log_probabilities_of_the_steps(policy, environment, temperature):
    parameters = random_parameters(policy)
    trajectories = sample(policy, parameters, environment, 16, temperature)
    assert not trajectories.truncated.any()
    scores = policy.score(parameters, trajectories, temperature)
    np.testing.assert_allclose(scores.log_probs, trajectories.behaviour_log_probs, rtol=1e-5, atol=1e-6)
    assert (scores.log_probs[~trajectories.token_mask] == 0).all()
    assert (scores.entropy[~trajectories.token_mask] == 0).all()
    gradient = jax.grad(lambda p: policy.score(p, trajectories, temperature).log_probs.sum())(parameters)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@every_case
def test_table_holds_the_scores_of_every_state(policy, environment):
    parameters = random_parameters(policy)
    table = log_probs_table(policy, parameters, environment)
    assert table.shape == (environment.num_observations, environment.vocabulary_size)
    legal = environment.legal(jnp.arange(environment.num_observations))
    np.testing.assert_array_equal(jnp.isfinite(table), legal)
    np.testing.assert_allclose(jnp.exp(table).sum(-1), 1.0, rtol=1e-5)
    trajectories = sample(policy, parameters, environment, 16)
    looked_up = table[trajectories.observations, trajectories.tokens]
    np.testing.assert_allclose(
        jnp.where(trajectories.token_mask, looked_up, 0.0), trajectories.behaviour_log_probs, rtol=1e-5, atol=1e-6
    )


@every_case
def test_sampled_outcomes_follow_the_exact_distribution(policy, environment):
    parameters = random_parameters(policy)
    group_size = 4000
    outcomes = environment.verify(sample(policy, parameters, environment, group_size)).outcome_id[0]
    frequencies = np.bincount(outcomes, minlength=environment.num_outcomes) / group_size
    probs = environment.terminal_distribution(log_probs_table(policy, parameters, environment))
    standard_error = np.sqrt(probs * (1 - probs) / group_size)
    np.testing.assert_array_less(np.abs(frequencies - probs), 4.5 * standard_error + 1e-6)


@every_case
def test_distribution_is_differentiable_in_the_parameters(policy, environment):
    def expected_reward(parameters):
        probs = environment.terminal_distribution(log_probs_table(policy, parameters, environment))
        return probs @ environment.reward_table()[0]

    parameters = random_parameters(policy)
    gradient = jax.jit(jax.grad(expected_reward))(parameters)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    uphill = jax.tree.map(lambda leaf, slope: leaf + 0.1 * slope, parameters, gradient)
    assert expected_reward(uphill) > expected_reward(parameters)


def test_rows_of_a_bandit_are_its_prompts():
    bandit = Bandit(((1.0, 0.0), (0.25, 0.5)))
    policy = Tabular(2, 2, initial_logits=((0.0, 0.0), (0.0, float(np.log(3)))))
    table = log_probs_table(policy, policy.init(jax.random.key(0)), bandit)
    np.testing.assert_allclose(jnp.exp(table), [[0.5, 0.5], [0.25, 0.75]], rtol=1e-6)
