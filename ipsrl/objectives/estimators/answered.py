"""Statistics over the answers of a group that have tokens.

Sources of groups fill places that they have no answer for with empty ones, see `Rollouts.answered`. These would have
the probability 1, and so outweigh all answers of a language model.
"""

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.structures import Rollouts, masked_sum


def mean_of_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, 1]`, the mean of `[P, G]` over answers with tokens; 0 if there are none."""
    answered = rollouts.answered
    return (masked_sum(values, answered, axis=-1) / jnp.maximum(answered.sum(axis=-1), 1))[:, None]


def log_softmax_of_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, G]`, log softmax of `[P, G]` over answers with tokens; 0 at the others."""
    answered = rollouts.answered
    # In a group of empty answers all count, so that gradients are finite.
    counted = answered | ~answered.any(axis=-1, keepdims=True)
    return jnp.where(answered, values - logsumexp(values, axis=-1, keepdims=True, where=counted), 0.0)
