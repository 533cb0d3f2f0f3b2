"""Runs that learn from groups of a policy several updates old: all ages, learning rates and seeds in one program."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.policies.policy import Parameters
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.source import Actors, Groups, Request
from ipsrl.study.curves import Points
from ipsrl.training.trainer import Trainer

BATCHES = 10
"""Between two records of a study."""
Measure = Callable[[Parameters, Parameters, Groups], dict[str, Any]]
"""(parameters, those that sampled the last batch, that batch) -> numbers, or dicts of them."""


def train_on_old_groups(
    trainer: Trainer,
    measure: Measure,
    every: int,
    seeds: Sequence[int],
    ages: Sequence[int],
    learning_rates: Sequence[float],
    reward: Reward | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Trains a policy for each seed, age and learning rate, on groups that the policy `age` batches earlier sampled.

    In the first batches the initial policy samples. At age 0 a step is the trainer's own.

    Args:
      trainer: its source runs under jit, from nothing but the actors' parameters.
      every: batches between records; divides the trainer's steps.
      reward: of the answers in all runs; None for the environment's own.

    Returns:
      what `measure` gives after each interval, name -> `[S, A, R, U]`, and the metrics of its batches, `[S, A, R, U,
        every]`, U = steps / every; float64.
    """
    trainer.check(runs=len(seeds) * len(ages) * len(learning_rates))
    rates = jnp.asarray(learning_rates, jnp.float32)
    grid = jnp.meshgrid(jnp.asarray(seeds), jnp.asarray(ages), rates, indexing="ij")
    one = functools.partial(_run, trainer, measure, every, max(ages), reward)
    found = jax.jit(jax.vmap(one))(*(axis.ravel() for axis in grid))
    shape = grid[0].shape
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64).reshape(*shape, *leaf.shape[1:]), found
    )


def points(
    values: Mapping[str, np.ndarray],
    every: int,
    seeds: Sequence[int],
    ages: Sequence[int],
    learning_rates: Sequence[float],
) -> Points:
    """Values `[S, A, R, U]` as points of one curve, with the further values `age` and `learning_rate`."""
    *_, intervals = next(iter(values.values())).shape
    steps = every * np.arange(1, intervals + 1)
    _, age, rate, step = np.meshgrid(seeds, ages, learning_rates, steps, indexing="ij")
    columns = {**values, "age": age, "learning_rate": rate}
    by_seed = {name: column.reshape(len(seeds), -1) for name, column in columns.items()}
    return Points(step[0].ravel(), by_seed, seeds)


def mean_so_far(values: np.ndarray) -> np.ndarray:
    """Means of the values up to each place of the last axis, without those that are NaN; NaN before the first."""
    count = np.isfinite(values).cumsum(-1)
    return np.where(count > 0, np.nancumsum(values, -1) / np.maximum(count, 1), np.nan)


def std_so_far(values: np.ndarray) -> np.ndarray:
    """Standard deviations of all numbers `[..., U, every]` up to each interval, `[..., U]`."""
    mean, square = (mean_so_far(of.mean(-1)) for of in (values, values**2))
    return np.sqrt(np.maximum(square - mean**2, 0.0))


def broken(reward: np.ndarray) -> np.ndarray:
    """1 where a reward of a run, `[..., U]`, is below half of the best so far, else 0."""
    return (reward < np.maximum.accumulate(reward, axis=-1) / 2).astype(float)


def _run(trainer, measure, every, oldest, reward, seed, age, learning_rate):
    state = trainer.begin(seed, learning_rate, None, reward)
    # The policies before the next batch, before the last one, and so on.
    kept = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (oldest + 2, *leaf.shape)), state.parameters
    )

    def of_age(kept, age):
        return jax.tree.map(lambda leaf: leaf[age], kept)

    def batch(carry, _):
        state, kept, _ = carry
        actors = Actors(of_age(kept, age), state.reference)
        request = Request(state.seed, state.step)
        source, groups, _ = trainer.groups_from(state.source, actors, request)
        state, metrics = trainer.learn(state, groups)
        kept = jax.tree.map(
            lambda old, new: jnp.concatenate([new[None], old[:-1]]), kept, state.parameters
        )
        return (dataclasses.replace(state, source=source), kept, groups), metrics

    def interval(carry, _):
        (state, kept, groups), metrics = jax.lax.scan(batch, carry, length=every)
        measured = measure(state.parameters, of_age(kept, age + 1), groups)
        return (state, kept, groups), (measured, metrics)

    (_, _, shapes), _ = jax.eval_shape(batch, (state, kept, 0), 0)
    no_groups = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    intervals = trainer.settings.steps // every
    _, recorded = jax.lax.scan(interval, (state, kept, no_groups), length=intervals)
    return recorded
