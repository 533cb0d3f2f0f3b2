"""Advantages within the best part of a group, by something else than the reward: `[P, G]` -> `[P, G]`."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import share
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class FilteredGroup(RolloutPart):
    """A_g = (r_g - mean) / std of the kept answers, 0 for the others: GFPO (arXiv 2508.09726).

    Kept are the k answers that are best by `by`, k = `kept` times G, rounded up: the shortest ones, or those of the
    highest reward for each token. Answers as good as the last of them are kept as well. No epsilon is added; if the
    rewards of the kept answers are all equal, the group gets exactly zero.
    """

    kept: float = share(0.5, called="the share of answers that are kept")
    by: Literal["length", "reward_per_token"] = "length"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        length = jnp.maximum(rollouts.token_mask.sum(axis=-1), 1).astype(values.dtype)
        merit = -length if self.by == "length" else values / length
        worst = jnp.sort(merit, axis=-1)[:, -math.ceil(self.kept * values.shape[-1])]
        chosen = merit >= worst[:, None]
        number = chosen.sum(axis=-1, keepdims=True)
        centred = values - jnp.where(chosen, values, 0.0).sum(axis=-1, keepdims=True) / number
        std = jnp.sqrt(jnp.where(chosen, centred**2, 0.0).sum(axis=-1, keepdims=True) / number)
        highest, lowest = (
            pick(jnp.where(chosen, values, other), axis=-1, keepdims=True)
            for pick, other in ((jnp.max, -jnp.inf), (jnp.min, jnp.inf))
        )
        rounding = 8 * jnp.finfo(values.dtype).eps * jnp.abs(values).max(axis=-1, keepdims=True)
        silent = (highest - lowest <= rounding) | (std == 0)
        return jnp.where(chosen & ~silent, centred / jnp.where(silent, 1.0, std), 0.0)
