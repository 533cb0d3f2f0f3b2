"""Advantages for unmastered prompts only (DPH-RL): `[P, G, T]` -> `[P, G, T]`."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import share
from ipsrl.objectives.estimators.mastered import mastered_groups
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class UnmasteredOnly(RolloutPart):
    """Sets the advantages of mastered groups to zero (DPH-RL, arXiv 2509.07430)."""

    mastered_at: float = share(1.0, called="mastered_at, a share of correct answers,")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return jnp.where(mastered_groups(rollouts.right, self.mastered_at)[:, None, None], 0.0, values)
