"""The placebo of a reward."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.rewards import Reward
from ipsrl.structures import Outcomes, Trajectories


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
        return jnp.broadcast_to(rewards[:, None], (*rewards.shape, size)), jnp.full(
            (*rewards.shape, size), 1 / size
        )
