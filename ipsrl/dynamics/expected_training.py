"""Whole training runs by exact expected updates on a bandit, with what an objective carries from batch to batch."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.expected_update import Steps, expected_update
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives.objective import Objective
from ipsrl.structures import Rollouts


@checked
def expected_training(
    objective: Objective,
    rewards: Sequence[float],
    distributions: Sequence[Sequence[float]],
    group_size: int,
    steps: Steps,
    updates: int,
) -> np.ndarray:
    """Logits `[U + 1, N, K]` in float64 of training without noise, z <- z + size * expected_update(z), from N starts.

    `ipsrl.dynamics.field.train` with the path instead of its end, and with the objective's state: a coefficient
    that follows the entropy of earlier batches is the same for all groups of a bandit, where every answer is one token
    of one policy, so that the mean over groups with the state carried is exact. Parts that sample at random are
    averaged over all rotations of each group, with one fixed key; see `expected_update`.

    Args:
      objective: any objective that needs neither text nor a reference policy.
      rewards: of the K arms.
      distributions: `[N, K]`, of the starts, all positive.
      group_size: G.
      steps: on each batch.
      updates: U, number of batches.

    Raises:
      ValueError: a start is not a distribution of positive probabilities, there are no updates, training diverges, or
        the state depends on what was sampled.
    """
    starts = Field(objective, tuple(map(float, rewards)), group_size).logits_of(distributions, "distributions")
    if updates < 1:
        raise ValueError(f"updates is {updates}, it must be at least 1")
    with jax.enable_x64(True):
        bandit = Bandit(tuple(map(float, rewards)))
        state = objective.init(bandit.sizes)
        first = jnp.asarray(starts[0])
        alike = [np.repeat(arm, group_size) for arm in range(len(rewards))]
        after = [jax.tree.leaves(_next_state(objective, bandit, first, state, members)) for members in alike]
        if any(not np.array_equal(*pair) for other in after[1:] for pair in zip(after[0], other, strict=True)):
            raise ValueError("the objective's state depends on the sampled answers: its mean is not that of one state")
        path = np.asarray(_paths(objective, bandit, group_size, steps, updates, starts))
    if not np.isfinite(path).all():
        raise ValueError(f"expected training diverges for rewards {tuple(rewards)} and {steps}")
    return path


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _paths(objective, bandit, group_size, steps, updates, starts):
    def one_update(carried, _):
        logits, state = carried
        given = objective, logits, bandit.reward_table()[0], group_size
        update = expected_update(*given, objective_state=state, steps=steps, num_keys=1)
        after = logits + steps.size * update
        return (after, _next_state(objective, bandit, logits, state)), after

    def from_start(logits):
        _, later = jax.lax.scan(one_update, (logits, objective.init(bandit.sizes)), length=updates)
        return jnp.concatenate([logits[None], later])

    return jax.vmap(from_start, out_axes=1)(starts)


def _next_state(
    objective: Objective, bandit: Bandit, logits: Array, state: tuple, arms: np.ndarray | slice = slice(None)
) -> tuple:
    """The state after a batch that holds some arms, by default each once."""
    trajectories = every_trajectory(bandit, logits[None])
    outcomes = bandit.verify(trajectories)
    answers, outcomes = jax.tree.map(
        lambda leaf: leaf[:, arms], (dataclasses.replace(trajectories, prompts=None), outcomes)
    )
    trajectories = dataclasses.replace(answers, prompts=trajectories.prompts)
    rollouts = Rollouts.of(trajectories, outcomes, keys=jax.random.split(jax.random.key(0), 1))
    after = objective.weigh(rollouts, state)[1]
    return jax.tree.map(lambda new, old: jnp.asarray(new, jnp.asarray(old).dtype), after, state)
