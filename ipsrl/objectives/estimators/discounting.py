"""Discounted sums along answers."""

import jax.numpy as jnp
import numpy as np
from jax import Array

BLOCK = 32
"""Tokens summed by one matrix product; the fastest block size measured."""


def discounted_sums(values: Array, discount: float, reverse: bool = False) -> Array:
    """s_t = sum_{u <= t} discount^(t - u) values_u along the last axis, `[..., T]`; with `reverse`, over u >= t.

    The discount lies in (0, 1]. Token by token this would take T steps; here blocks of tokens, and then the sums of
    whole blocks, are multiplied by a triangular matrix of discounts.
    """
    *rows, length = values.shape
    padded = jnp.pad(values, [*[(0, 0)] * len(rows), (0, -length % BLOCK)])
    blocks = padded.reshape(*rows, -1, BLOCK)
    within, whole = _discounts(BLOCK, discount), BLOCK - 1
    # Each block's sum is carried into all later blocks, and discounted there token by token.
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
