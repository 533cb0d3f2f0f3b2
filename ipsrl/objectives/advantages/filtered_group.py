"""Advantages within the best part of a group, by something else than the reward: `[P, G]` -> `[P, G]`."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import share
from ipsrl.objectives.objective import RolloutPart, rounding
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class FilteredGroup(RolloutPart):
    """A_g = (r_g - mean) / std of the kept answers, 0 for the others: GFPO (arXiv 2508.09726).

    Kept are the k answers that are best by `by`, k = `kept` times their number, rounded up: the shortest ones, or those
    of the highest reward for each token. Answers as good as the last of them are kept as well; answers without tokens
    do not count. No epsilon is added; if the rewards of the kept answers are all equal, the group gets exactly zero.
    """

    kept: float = share(0.5, called="the share of answers that are kept")
    by: Literal["length", "reward_per_token"] = "length"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        answered, group = rollouts.answered, values.shape[-1]
        length = jnp.maximum(rollouts.token_mask.sum(axis=-1), 1).astype(values.dtype)
        merit = jnp.where(answered, -length if self.by == "length" else values / length, -jnp.inf)
        # By the number of answers. The offset undoes rounding in products such as 0.28 * 25, whose ceiling must be 7.
        kept = [max(math.ceil(self.kept * answers - 1e-6), 1) for answers in range(group + 1)]
        last = group - jnp.array(kept)[answered.sum(axis=-1, keepdims=True)]
        worst = jnp.take_along_axis(jnp.sort(merit, axis=-1), last, axis=-1)
        chosen = answered & (merit >= worst - rounding(jnp.where(answered, merit, 0.0)))
        number = jnp.maximum(chosen.sum(axis=-1, keepdims=True), 1)
        centred = values - jnp.where(chosen, values, 0.0).sum(axis=-1, keepdims=True) / number
        std = jnp.sqrt(jnp.where(chosen, centred**2, 0.0).sum(axis=-1, keepdims=True) / number)
        highest, lowest = (
            pick(jnp.where(chosen, values, other), axis=-1, keepdims=True)
            for pick, other in ((jnp.max, -jnp.inf), (jnp.min, jnp.inf))
        )
        silent = (highest - lowest <= rounding(values)) | (std == 0)
        return jnp.where(chosen & ~silent, centred / jnp.where(silent, 1.0, std), 0.0)
