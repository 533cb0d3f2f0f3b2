"""How many tokens a share of a batch is, and the covariance of advantage and log-probability.

Both look at all valid tokens of a batch of rollouts.
"""

import jax.numpy as jnp
from jax import Array

from ipsrl.structures import Rollouts, masked_sum

SHARE_ROUNDING = 2.0**-22
"""More than float32 rounds a product such as 0.2 * 10, whose floor and ceiling must be 2.

Relative: counts of whole percents are exact up to 20,000 tokens chosen; beyond, they may be off by one."""


def token_covariance(advantages: Array, rollouts: Rollouts) -> Array:
    """(log pi - mean log pi) (A - mean A), means over all valid tokens of the batch, `[P, G, T]`; 0 elsewhere.

    Its mean is the covariance that lowers the entropy of a softmax policy (arXiv 2505.22617). log pi is the behaviour
    policy's.
    """
    mask = rollouts.token_mask
    tokens = jnp.maximum(number_of_tokens(mask), 1.0)

    def centred(values):
        return jnp.where(mask, values - masked_sum(values, mask) / tokens, 0.0)

    return centred(rollouts.behaviour_log_probs) * centred(advantages)


def rounded_up(fraction: float, mask: Array) -> Array:
    """max(1, ceil(fraction N)), N the number of True, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.ceil(fraction * number_of_tokens(mask) * (1.0 - SHARE_ROUNDING)), 1.0)


def rounded_down(fraction: float, mask: Array) -> Array:
    """max(1, floor(fraction N)), N the number of True, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.floor(fraction * number_of_tokens(mask) * (1.0 + SHARE_ROUNDING)), 1.0)


def number_of_tokens(mask: Array) -> Array:
    """How many are True, exact up to 2^24; float32, whose sums are faster than those of integers on a CPU."""
    return mask.sum(dtype=jnp.float32)
