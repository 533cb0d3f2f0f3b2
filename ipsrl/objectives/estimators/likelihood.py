"""Likelihood of whole answers under the behaviour policy."""

import jax.numpy as jnp
from jax import Array

from ipsrl.structures import Rollouts, masked_sum


def average_log_probability(rollouts: Rollouts) -> Array:
    """Mean log-probability of the tokens of each answer under the behaviour policy, `[P, G]`; 0 without tokens."""
    length = rollouts.token_mask.sum(axis=-1)
    return masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1) / jnp.maximum(length, 1)
