"""An objective that splits its optimiser steps, in training."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.environments.tree import Tree
from ipsrl.objectives import make
from ipsrl.policies.tabular import Tabular
from ipsrl.structures import Rollouts
from ipsrl.training.batches.groups import choose_prompts, collect
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import WHOLE_BATCH, TrainState, compiled_update

RATE = 5.0
TREE = Tree()
POLICY = Tabular(TREE.num_observations, TREE.vocabulary_size)


def test_lopti_takes_two_steps_and_the_second_from_where_the_first_has_led():
    objective = make("ar_lopti")
    optimizer = make_optimizer("sgd", learning_rate=RATE, max_gradient_norm=None)
    parameters = jax.tree.map(
        lambda leaf: leaf + jax.random.normal(jax.random.key(1), leaf.shape), POLICY.init(jax.random.key(0))
    )
    trajectories, outcomes = collect(TREE, POLICY, parameters, choose_prompts(TREE, 0, 0, 8), 0, 0, 6, 1.0)
    outcomes = dataclasses.replace(outcomes, rewards=jax.random.uniform(jax.random.key(2), outcomes.rewards.shape))
    rollouts = Rollouts.of(trajectories, outcomes)
    weights, _, _ = objective.weigh(rollouts, objective.init(TREE.sizes))

    def moved(parameters, weights):
        def loss(parameters):
            output = objective.loss(POLICY.score(parameters, trajectories, 1.0), rollouts, weights)
            return output.loss_sum / output.count

        return jax.tree.map(lambda leaf, slope: leaf - RATE * slope, parameters, jax.grad(loss)(parameters))

    expected = parameters
    for stage in range(2):
        expected = moved(expected, objective.at_stage(weights, rollouts, jnp.int32(stage)))
    at_once = moved(parameters, weights)

    state = TrainState.create(jax.tree.map(jnp.copy, parameters), objective, optimizer, TREE)
    state, _ = compiled_update(
        state, trajectories, outcomes, None, jax.random.key(0), policy=POLICY, objective=objective, optimizer=optimizer,
        batching=WHOLE_BATCH, temperature=1.0,
    )  # fmt: skip
    for actual, two_steps, one_step in zip(*map(jax.tree.leaves, (state.parameters, expected, at_once)), strict=True):
        np.testing.assert_allclose(actual, two_steps, rtol=1e-5, atol=1e-6)
        assert np.abs(actual - one_step).max() > 1e-3
