"""Subgroups of a group (strata or modes), and values normalised within them."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Rollouts, control_token, masked_mean

Stratum = Literal["length", "planning", "first_token"]


def normalised_among(values: Array, peers: Array, standardise: bool = True) -> Array:
    """(r_g - mean) / std over the peers of each answer, `[P, G]` values and `[P, G, G]` bool -> `[P, G]`.

    `peers[p, g, j]` is True if g is compared with j; an answer with peers is one of them. The standard deviation is the
    population's; it is omitted unless `standardise`. Exactly 0 if all peers have the same value, or if there are none.
    """
    # Other answers are replaced by the answer's own value, so that `all_equal` applies as in a whole group.
    degenerate = all_equal(jnp.where(peers, values[:, None, :], values[:, :, None]))
    mean = masked_mean(values[:, None, :], peers, axis=-1)
    centred = jnp.where(degenerate, 0.0, values - mean)
    if not standardise:
        return centred
    variance = masked_mean((values[:, None, :] - mean[..., None]) ** 2, peers, axis=-1)
    undefined = degenerate | (variance == 0)
    return jnp.where(undefined, 0.0, centred / jnp.sqrt(jnp.where(undefined, 1.0, variance)))


def stratum_of(rollouts: Rollouts, stratum: Stratum, width: int = 1) -> Array:
    """`[P, G]` int32, the stratum of each answer.

    `length` is its number of tokens, `planning` its number of planning tokens, both divided by `width` and rounded
    down; `first_token` is the `control_token` itself, even if the environment dictated it (-1 if the policy chose
    none).
    """
    if stratum == "first_token":
        first = jnp.where(control_token(rollouts.token_mask), rollouts.tokens, 0).sum(axis=-1)
        return jnp.where(rollouts.answered, first, -1)
    counted = rollouts.token_mask
    if stratum == "planning":
        counted = counted & rollouts.planning_mask
    return counted.sum(axis=-1) // width
