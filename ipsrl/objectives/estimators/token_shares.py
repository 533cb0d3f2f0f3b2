"""Number of tokens in a share of a batch, and the covariance of advantage and log-probability.

Both use all valid tokens of a batch of rollouts. They are counted in float32, because CPUs sum floats faster than
integers: exact up to 2^24.
"""

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import rounding
from ipsrl.structures import Rollouts, masked_sum

SHARE_ROUNDING = 2.0**-22
"""Larger than the float32 rounding error of a product such as 0.2 * 10, whose floor and ceiling must be 2.

Relative: counts of whole percents are exact up to 20,000 chosen tokens; above that they may be off by one."""


def token_covariance(advantages: Array, rollouts: Rollouts) -> Array:
    """(log pi - mean log pi) (A - mean A), means over all valid tokens of the batch, `[P, G, T]`; 0 elsewhere.

    Its mean is the covariance that lowers the entropy of a softmax policy (arXiv 2505.22617). pi is the behaviour
    policy. A difference of rounding is 0.
    """
    mask = rollouts.token_mask
    tokens = jnp.maximum(mask.sum(dtype=jnp.float32), 1.0)

    def centred(values):
        difference = values - masked_sum(values, mask) / tokens
        differs = jnp.abs(difference) > rounding(jnp.where(mask, values, 0.0), axis=None)
        return jnp.where(mask & differs, difference, 0.0)

    return centred(rollouts.behaviour_log_probs) * centred(advantages)


def rounded_up(fraction: float, mask: Array) -> Array:
    """max(1, ceil(fraction N)), N the number of True entries, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.ceil(fraction * mask.sum(dtype=jnp.float32) * (1.0 - SHARE_ROUNDING)), 1.0)


def rounded_down(fraction: float, mask: Array) -> Array:
    """max(1, floor(fraction N)), N the number of True entries, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.floor(fraction * mask.sum(dtype=jnp.float32) * (1.0 + SHARE_ROUNDING)), 1.0)
