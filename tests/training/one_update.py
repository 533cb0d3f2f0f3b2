"""One update of a table on the small tree, for tests of what a training step does."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import WHOLE_BATCH, TrainState, compiled_update
from tests.sampled_groups import collect

TREE = Tree()
TABLE = Tabular(TREE.num_observations, TREE.vocabulary_size)
SGD = make_optimizer("sgd", learning_rate=0.5, max_gradient_norm=None)
PROMPTS, GROUP_SIZE = 8, 6


def moved(parameters, seed, scale):
    """The parameters with noise."""
    noise = jax.random.key(seed)
    return jax.tree.map(lambda leaf: leaf + scale * jax.random.normal(noise, leaf.shape), parameters)


def start(policy=TABLE, scale=1.0):
    """Fresh parameters with noise, because a table starts at zero."""
    return moved(policy.init(jax.random.key(0)), 1, scale)


def sample(environment=TREE, policy=TABLE, parameters=None, temperature=1.0, top_tokens=0):
    """Groups of answers by these parameters, or by those of `start`."""
    parameters = start(policy) if parameters is None else parameters
    prompts = choose_prompts(environment, 0, 0, PROMPTS)
    return collect(environment, policy, parameters, prompts, 0, 0, GROUP_SIZE, temperature, top_tokens)


def step(objective, sampled, parameters=None, reference=None, batching=WHOLE_BATCH, key=0, **static):
    """State and metrics after one compiled update, from parameters that are left as they were."""
    static = {"policy": TABLE, "optimizer": SGD, "temperature": 1.0, "batching": batching} | static
    parameters = start(static["policy"]) if parameters is None else jax.tree.map(jnp.copy, parameters)
    state = TrainState.create(parameters, objective, static["optimizer"], TREE)
    # An update donates its state.
    state = dataclasses.replace(state, reference=jax.tree.map(jnp.copy, reference))
    return compiled_update(state, *sampled, jax.random.key(key), objective=objective, **static)


def steps_by_hand(objective, batching, trajectories, rollouts, policy=TABLE, parameters=None):
    """The parameters after all optimiser steps on a batch, and the metrics of each."""
    weights, _, _ = jax.jit(objective.weigh)(rollouts, objective.init(TREE.sizes))

    def loss(parameters, share):
        trajectories, rollouts, weights = share
        output = objective.loss(policy.score(parameters, trajectories, 1.0), rollouts, weights)
        return output.loss_sum / output.count, output.metrics

    gradient = jax.jit(jax.grad(loss, has_aux=True))

    parameters, found = start(policy) if parameters is None else parameters, []
    for _, first in itertools.product(range(batching.epochs), range(batching.mini_batches)):
        for of_step in objective.weights_of_steps(weights, rollouts):
            batch = (trajectories, rollouts, of_step)
            share = jax.tree.map(lambda leaf, first=first: leaf[first :: batching.mini_batches], batch)
            slope, metrics = gradient(parameters, share)
            parameters = jax.tree.map(lambda leaf, by: leaf - 0.5 * by, parameters, slope)
            found.append(metrics)
    return parameters, found


def assert_close(one, other, tolerance=1e-6):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance), one, other)
