"""The entropy of the behaviour policy over a batch of rollouts."""

import jax.numpy as jnp
from jax import Array

from ipsrl.structures import Rollouts, masked_sum


def mean_entropy(rollouts: Rollouts) -> Array:
    """Mean entropy of the behaviour policy over all valid tokens, in nats, `[]`."""
    mask = rollouts.token_mask
    return masked_sum(rollouts.behaviour_entropy, mask) / jnp.maximum(mask.sum(dtype=jnp.float32), 1.0)
