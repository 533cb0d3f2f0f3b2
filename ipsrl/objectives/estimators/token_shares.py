"""The number of tokens in a share of a batch: of all valid tokens of the rollouts.

They are counted in float32, because CPUs sum floats faster than integers: exact up to 2^24.
"""

import jax.numpy as jnp
from jax import Array

SHARE_ROUNDING = 2.0**-22
"""Larger than the float32 rounding error of a product such as 0.2 * 10, whose floor and ceiling must be 2.

Relative: counts of whole percents are exact up to 20,000 chosen tokens; above that they may be off by one."""


def rounded_up(fraction: float, mask: Array) -> Array:
    """max(1, ceil(fraction N)), N the number of True entries, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.ceil(fraction * mask.sum(dtype=jnp.float32) * (1.0 - SHARE_ROUNDING)), 1.0)


def rounded_down(fraction: float, mask: Array) -> Array:
    """max(1, floor(fraction N)), N the number of True entries, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.floor(fraction * mask.sum(dtype=jnp.float32) * (1.0 + SHARE_ROUNDING)), 1.0)
