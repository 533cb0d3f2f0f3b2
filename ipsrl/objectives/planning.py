"""Weight for the tokens that plan: `[P, G, T]` -> `[P, G, T]`."""

import dataclasses
import math
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts

Planned = Literal["planning_mask", "high_entropy", "random", "first"]


def planned_tokens(rollouts: Rollouts, planned: Planned) -> Array:
    """`[P, G, T]` bool, the tokens that plan, or a control with as many tokens in each answer.

    `planning_mask` is the environment's. In each answer, `high_entropy` takes as many tokens as that mask has, those of
    highest behaviour entropy (the earlier where they tie), and `random` as many by chance: both sort the tokens, which
    takes many times as long as the rest of an objective. `first` is the first token of every answer.
    """
    mask = rollouts.token_mask
    if planned == "first":
        return mask & (jnp.arange(mask.shape[-1]) == 0)
    if planned == "planning_mask":
        return mask & rollouts.planning_mask
    if planned == "random":
        score = jax.vmap(lambda key: jax.random.uniform(key, mask.shape[1:]))(rollouts.keys)
    else:
        score = rollouts.behaviour_entropy
    order = jnp.argsort(jnp.where(mask, -score, jnp.inf), axis=-1)
    selected = jnp.arange(mask.shape[-1]) < (mask & rollouts.planning_mask).sum(axis=-1, keepdims=True)
    return jnp.put_along_axis(jnp.zeros_like(mask), order, selected, axis=-1, inplace=False)


@dataclasses.dataclass(frozen=True)
class PlanningBonus(RolloutPart):
    """A + alpha |A| on planning tokens, A on the others (HICRA, arXiv 2509.03646).

    A plan of a good answer is pushed up by 1 + alpha; that of a failed one is pushed down by 1 - alpha only. So
    planning tokens gain alpha mean |A| whatever they lead to: compare with `planned="random"`, which has the same count
    and the same advantages. One summary of the paper says that failed plans are punished more: `failures` has both.

    Attributes:
      alpha: weight of the bonus.
      planned: which tokens, see `planned_tokens`.
      failures: negative advantages on these tokens are `eased`, times 1 - alpha (the formula); `kept`; or `sharpened`,
        times 1 + alpha.
    """

    alpha: float = 0.2
    planned: Planned = "planning_mask"
    failures: Literal["eased", "kept", "sharpened"] = "eased"

    def __post_init__(self):
        if not 0.0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is {self.alpha}, it must be finite and not negative")

    @property
    def needs(self) -> frozenset[str]:
        if self.planned == "first":
            return frozenset()
        return frozenset({"planning_mask", "keys"} if self.planned == "random" else {"planning_mask"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        sign = {"eased": -1.0, "kept": 0.0, "sharpened": 1.0}[self.failures]
        bonus = self.alpha * jnp.where(values < 0, sign * values, values)
        return values + jnp.where(planned_tokens(rollouts, self.planned), bonus, 0.0)
