"""The pairs of a group: the winner has the higher reward; ties, up to rounding, form no pair.

A group of two is the stored pair [chosen, rejected]. An answer without tokens is in no pair, because its loss would
belong to no token.
"""

from jax import Array

from ipsrl.objectives.objective import rounding
from ipsrl.structures import Rollouts


def beats(rollouts: Rollouts) -> Array:
    """`[P, G, G]` bool, True at [p, w, l] where answer w has a higher reward than l, and both have tokens."""
    rewards, answered = rollouts.rewards, rollouts.answered
    ahead = rewards[:, :, None] - rewards[:, None, :] > rounding(rewards)[..., None]
    return ahead & answered[:, :, None] & answered[:, None, :]
