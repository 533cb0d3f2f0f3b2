"""Statistics over the answers of a group that have tokens.

Sources of groups fill places that they have no answer for with empty ones, see `Rollouts.answered`. These would have
the probability 1, and so outweigh all answers of a language model.
"""

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.ties import all_equal, less_largest
from ipsrl.structures import Rollouts, masked_mean


def equal_among_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, 1]` bool, True for groups whose answers with tokens have equal values, see `all_equal`."""
    return all_equal(jnp.where(rollouts.answered, values, largest_of_answered(values, rollouts)))[:, None]


def largest_of_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, 1]`, the largest of `[P, G]` over answers with tokens; over all if there are none."""
    return jnp.where(counted(rollouts), values, -jnp.inf).max(axis=-1, keepdims=True)


def less_largest_of_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, G]`, see `less_largest`, the largest being that over answers with tokens, or over all if there are none."""
    return less_largest(values, counted(rollouts))


def mean_of_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, 1]`, the mean of `[P, G]` over answers with tokens; 0 if there are none."""
    return masked_mean(values, rollouts.answered, axis=-1)[:, None]


def counted(rollouts: Rollouts) -> Array:
    """`[P, G]` bool, the answers with tokens; in a group without one all, so that gradients are finite."""
    return rollouts.answered | ~rollouts.answered.any(axis=-1, keepdims=True)
