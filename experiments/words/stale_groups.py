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


@dataclasses.dataclass(frozen=True)
class Grid:
    """One run for each seed, age of its groups, and learning rate."""

    seeds: Sequence[int]
    ages: Sequence[int]
    learning_rates: Sequence[float]

    def mesh(self, *more: np.ndarray) -> list[np.ndarray]:
        """`[S, A, R, ...]`, each run's seed, age and learning rate, and a coordinate for each further axis."""
        return np.meshgrid(self.seeds, self.ages, self.learning_rates, *more, indexing="ij")


def train_on_old_groups(
    trainer: Trainer,
    measure: Measure,
    every: int,
    grid: Grid,
    reward: Reward | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Trains all policies of a grid, each on groups that the policy `age` batches earlier sampled.

    In the first batches the initial policy samples. At age 0 a step is the trainer's own.

    Args:
      trainer: its source runs under jit, from nothing but the actors' parameters.
      every: batches between records; divides the trainer's steps.
      reward: of the answers in all runs; None for the environment's own.

    Returns:
      what `measure` gives after each interval, name -> `[S, A, R, U]`, and the metrics of its batches, `[S, A, R, U,
        every]`, U = steps / every; float64.
    """
    mesh = grid.mesh()
    first = mesh[0]
    trainer.check(runs=first.size)
    run = functools.partial(_run, trainer, measure, every, max(grid.ages), reward)
    of_all = jax.jit(jax.vmap(run))
    found = of_all(*map(np.ravel, mesh))

    def over_grid(leaf):
        return np.asarray(leaf, float).reshape(*first.shape, *leaf.shape[1:])

    return jax.tree.map(over_grid, found)


def points(values: Mapping[str, np.ndarray], every: int, grid: Grid) -> Points:
    """Values `[S, A, R, U]` as points of one curve, with the further values `age` and `learning_rate`."""
    *_, intervals = next(iter(values.values())).shape
    _, age, rate, step = grid.mesh(every * np.arange(1, intervals + 1))
    columns = {**values, "age": age, "learning_rate": rate}
    by_seed = {name: column.reshape(len(step), -1) for name, column in columns.items()}
    return Points(step[0].ravel(), by_seed, grid.seeds)


def mean_so_far(values: np.ndarray) -> np.ndarray:
    """Means of the values up to each place of the last axis, without those that are NaN; NaN before the first."""
    count = np.isfinite(values).cumsum(-1)
    total = np.nancumsum(values, -1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def std_so_far(values: np.ndarray) -> np.ndarray:
    """Standard deviations of all numbers `[..., U, every]` up to each interval, `[..., U]`."""
    mean = mean_so_far(values.mean(-1))
    square = mean_so_far((values**2).mean(-1))
    variance = np.maximum(square - mean**2, 0.0)
    return np.sqrt(variance)


def broken(reward: np.ndarray) -> np.ndarray:
    """1 where a reward of a run, `[..., U]`, is below half of the best so far, else 0."""
    best = np.maximum.accumulate(reward, axis=-1)
    return (reward < best / 2).astype(float)


def _run(trainer, measure, every, oldest, reward, seed, age, learning_rate):
    state = trainer.begin(seed, learning_rate, None, reward)

    def copies(leaf):
        return jnp.broadcast_to(leaf, (oldest + 2, *leaf.shape))

    def newest_first(old, new):
        return jnp.concatenate([new[None], old[:-1]])

    def of_age(kept, age):
        return jax.tree.map(lambda leaf: leaf[age], kept)

    # The policies before the next batch, before the last one, and so on.
    kept = jax.tree.map(copies, state.parameters)

    def batch(carry, _):
        state, kept = carry
        actors = Actors(of_age(kept, age), state.reference)
        request = Request(state.seed, state.step)
        source, groups, _ = trainer.groups_from(state.source, actors, request)
        state, metrics = trainer.learn(state, groups)
        state = dataclasses.replace(state, source=source)
        kept = jax.tree.map(newest_first, kept, state.parameters)
        return (state, kept), (groups, metrics)

    def interval(carry, _):
        carry, (groups, metrics) = jax.lax.scan(batch, carry, length=every)
        state, kept = carry
        sampler = of_age(kept, age + 1)
        last = jax.tree.map(lambda leaf: leaf[-1], groups)
        measured = measure(state.parameters, sampler, last)
        return carry, (measured, metrics)

    intervals = trainer.settings.steps // every
    return jax.lax.scan(interval, (state, kept), length=intervals)[1]
