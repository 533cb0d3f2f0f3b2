"""Extra weight for planning tokens: `[P, G, T]` -> `[P, G, T]`."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative
from ipsrl.objectives.estimators.ranks import largest_of_rows, random_order
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, control_token

Planned = Literal["planning_mask", "high_entropy", "random", "first"]


def planned_tokens(rollouts: Rollouts, planned: Planned) -> Array:
    """`[P, G, T]` bool, the planning tokens, or a control with as many tokens in each answer.

    `planning_mask` comes from the environment. As controls with the same number of tokens in each answer,
    `high_entropy` takes the tokens of highest behaviour entropy (the earlier of ties) and `random` takes random tokens.
    `first` is the `control_token`, where the policy chose it.
    """
    mask = rollouts.token_mask
    if planned == "first":
        return mask & control_token(mask)
    planning = mask & rollouts.planning_mask
    if planned == "planning_mask":
        return planning
    drawn = planned == "random"
    score = random_order(rollouts.keys, mask.shape[1:]) if drawn else rollouts.behaviour_entropy
    return largest_of_rows(score, mask, planning.sum(axis=-1))


@dataclasses.dataclass(frozen=True)
class PlanningBonus(RolloutPart):
    """A + alpha |A| on planning tokens, A on the others (HICRA, arXiv 2509.03646).

    The formula multiplies the advantage of a good answer's plan by 1 + alpha, that of a failed plan by 1 - alpha. So
    planning tokens gain alpha mean |A| whatever their result: compare with `planned="random"`, which has the same count
    and the same advantages. One summary of the paper says that failed plans are punished more; `failures` offers both.

    Attributes:
      alpha: weight of the bonus.
      planned: which tokens, see `planned_tokens`.
      failures: negative advantages of these tokens are `eased`, times 1 - alpha (the formula); `kept`; or `sharpened`,
        times 1 + alpha.
    """

    alpha: float = non_negative(0.2)
    planned: Planned = "planning_mask"
    failures: Literal["eased", "kept", "sharpened"] = "eased"

    @property
    def needs(self) -> frozenset[str]:
        if self.planned == "first":
            return frozenset()
        return frozenset({"planning_mask", "keys"} if self.planned == "random" else {"planning_mask"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        sign = {"eased": -1.0, "kept": 0.0, "sharpened": 1.0}[self.failures]
        bonus = self.alpha * jnp.where(values < 0, sign * values, values)
        return values + jnp.where(planned_tokens(rollouts, self.planned), bonus, 0.0)
