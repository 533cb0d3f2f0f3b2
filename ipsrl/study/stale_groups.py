"""Runs that learn from groups of a policy several updates old: all ages, learning rates and seeds in one program."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.sources.source import Actors, Request
from ipsrl.training.trainer import Trainer

Measure = Callable[[Parameters, Parameters], dict[str, Array]]
"""(parameters, those that sampled the last batch) -> numbers."""


def train_on_old_groups(
    trainer: Trainer,
    measure: Measure,
    every: int,
    seeds: Sequence[int],
    ages: Sequence[int],
    learning_rates: Sequence[float],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Trains a policy for each seed, age and learning rate, on groups that the policy `age` batches earlier sampled.

    In the first batches the initial policy samples. At age 0 a step is the trainer's own.

    Args:
      trainer: its source runs under jit, from nothing but the actors' parameters.
      every: batches between records; divides the trainer's steps.

    Returns:
      what `measure` gives after each interval, and the means of the step's metrics over its batches: name -> `[S, A, R,
        steps / every]` float64.
    """
    trainer.check(runs=len(seeds) * len(ages) * len(learning_rates))
    grid = jnp.meshgrid(jnp.asarray(seeds), jnp.asarray(ages), jnp.asarray(learning_rates, jnp.float32), indexing="ij")
    one = functools.partial(_run, trainer, measure, every, max(ages))
    found = jax.jit(jax.vmap(one))(*(axis.ravel() for axis in grid))
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64).reshape(*grid[0].shape, -1), found)


def _run(trainer, measure, every, oldest, seed, age, learning_rate):
    state = trainer.begin(seed, learning_rate, None, None)
    # The policies before the next batch, before the last one, and so on.
    kept = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (oldest + 2, *leaf.shape)), state.parameters)

    def batch(carry, _):
        state, kept = carry
        actors = Actors(jax.tree.map(lambda leaf: leaf[age], kept), state.reference)
        source, groups, _ = trainer.groups_from(state.source, actors, Request(state.seed, state.step))
        state, metrics = trainer.learn(state, groups)
        kept = jax.tree.map(lambda old, new: jnp.concatenate([new[None], old[:-1]]), kept, state.parameters)
        return (dataclasses.replace(state, source=source), kept), metrics

    def interval(carry, _):
        (state, kept), metrics = jax.lax.scan(batch, carry, length=every)
        measured = measure(state.parameters, jax.tree.map(lambda leaf: leaf[age + 1], kept))
        return (state, kept), (measured, jax.tree.map(jnp.mean, metrics))

    return jax.lax.scan(interval, (state, kept), length=trainer.settings.steps // every)[1]
