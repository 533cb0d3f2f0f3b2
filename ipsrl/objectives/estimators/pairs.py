"""The pairs of a group: the winner has the higher reward; ties form no pair.

A group of two is the stored pair [chosen, rejected]. An answer without tokens is in no pair, because its loss would
belong to no token.
"""

from jax import Array

from ipsrl.structures import Rollouts


def beats(rollouts: Rollouts) -> Array:
    """`[P, G, G]` bool, True at [p, w, l] where answer w has a higher reward than l, and both have tokens."""
    rewards, answered = rollouts.rewards, rollouts.answered
    return (rewards[:, :, None] > rewards[:, None, :]) & answered[:, :, None] & answered[:, None, :]
