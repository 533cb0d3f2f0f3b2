"""Placebos: parts and rewards that do as much as a published one, to answers chosen at random."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.catalog.refinements import DistinctPairs
from ipsrl.rewards import Reward
from ipsrl.structures import Outcomes, Rollouts, Trajectories


@dataclasses.dataclass(frozen=True)
class RandomPairs(DistinctPairs):
    """Placebo of DaGRPO's mask: of each reward it keeps as many answers of a group, but chosen at random."""

    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def kept(self, values: Array, rollouts: Rollouts) -> Array:
        """`[P, G]` bool."""
        chance = jax.vmap(lambda key: jax.random.uniform(key, values.shape[1:]))(rollouts.keys)
        same = values[:, :, None] == values[:, None, :]
        place = (same & (chance[:, None, :] < chance[:, :, None])).sum(axis=-1)
        return place < (same & super().kept(values, rollouts)[:, None, :]).sum(axis=-1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomRewards(Reward):
    """Placebo of the environment's rewards: each answer gets that of one of its group, itself included, at random."""

    @property
    def reads_environment(self) -> bool:
        return True

    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        """`[P, G, G]`, all rewards of the group with the probability 1 / G."""
        rewards = outcomes.rewards
        size = rewards.shape[1]
        return jnp.broadcast_to(rewards[:, None], (*rewards.shape, size)), jnp.full((*rewards.shape, size), 1 / size)
