"""The frequency of each outcome in a group."""

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.arguments import checked


def same_outcome(outcome_id: Array) -> Array:
    """`[P, G, G]` bool: which samples of a group `[P, G]` have the same outcome."""
    return outcome_id[:, :, None] == outcome_id[:, None, :]


@checked
def outcome_frequency(outcome_id: Array, pseudo_count: float = 0.0) -> Array:
    """Share of each sample's outcome in its own group, `[P, G]` ids -> `[P, G]` numbers in [1/G, 1].

    phat(o_g) = (n + pseudo_count) / (G + pseudo_count), n = #{j : o_j = o_g}. Samples without a valid outcome (-1)
    count as one outcome.
    """
    counts = same_outcome(outcome_id).sum(axis=-1, dtype=jnp.float32)
    return (counts + pseudo_count) / (outcome_id.shape[-1] + pseudo_count)
