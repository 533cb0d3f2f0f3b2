"""Discounted sums along answers."""

import jax.numpy as jnp
import numpy as np
from jax import Array

BLOCK = 32
"""Tokens that are summed by one product; of this size it takes the least time."""


def discounted_sums(values: Array, discount: float, reverse: bool = False) -> Array:
    """s_t = sum_{u <= t} discount^(t - u) values_u along the last axis, `[..., T]`; over u >= t where `reverse`.

    Discounts above 0, up to 1. Token by token it would take T steps; here blocks of tokens are multiplied by a
    triangular matrix of discounts, and so are the sums of whole blocks.
    """
    *rows, length = values.shape
    padded = jnp.pad(values, [*[(0, 0)] * len(rows), (0, -length % BLOCK)])
    blocks = padded.reshape(*rows, -1, BLOCK)
    within, whole = _discounts(BLOCK, discount), BLOCK - 1
    # Of the sum of a block, as it enters each later one, and there from token to token.
    among = np.pad(_discounts(blocks.shape[-2] - 1, discount**BLOCK), ((0, 1), (1, 0)))
    onwards = discount ** np.arange(1.0, BLOCK + 1)
    if reverse:
        within, whole, among, onwards = within.T, 0, among.T, onwards[::-1]
    inside = jnp.matmul(blocks, np.float32(within), precision="highest")
    entering = jnp.matmul(inside[..., whole], np.float32(among), precision="highest")
    return (inside + entering[..., None] * np.float32(onwards)).reshape(padded.shape)[..., :length]


def _discounts(size: int, discount: float) -> np.ndarray:
    """`[size, size]`, discount^(t - u) for u <= t, 0 elsewhere."""
    steps = np.arange(size) - np.arange(size)[:, None]
    return np.where(steps >= 0, discount ** np.maximum(steps, 0), 0.0)
