"""Ranks without sorting: k-th largest values, quantiles and top-k masks of a whole batch or of each row.

Sorting all tokens takes about fifty times as long as the rest of an objective, and gathers them on each device. Here
the k-th largest value is found bit by bit, by counting the values that are at least as large: only counts are
communicated.

Values and mask are `[..., T]`; values outside the mask may be anything. `axis=None` ranks all values together, with k
`[]`; `axis=-1` ranks each row, with k `[...]`. Counts are float32, exact up to 2^24 values.
"""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Axis = Literal[-1] | None

HIGHEST_BIT = np.uint32(1 << 31)


def kth_largest(values: Array, mask: Array, k: Array, axis: Axis = None) -> Array:
    """The k-th largest of float32 values under the mask, exact; k from 1 to the number of values."""
    ordered = _ordered(values)
    least, _ = _threshold(ordered, mask, k, axis)
    return jnp.where(mask & (ordered >= _over_rows(least, axis)), values, jnp.inf).min(axis=axis)


def largest(values: Array, mask: Array, count: Array) -> Array:
    """True at the `count` largest of all values under the mask, and at ties with the last of them.

    True at all values if there are fewer; False everywhere if the mask is empty. Values are float32 or uint32.
    """
    ordered = _ordered(values)
    least, _ = _threshold(ordered, mask, count, None)
    return mask & (ordered >= least)


def largest_of_rows(values: Array, mask: Array, count: Array) -> Array:
    """True at exactly `count` `[...]` of the largest values of each row; of tied values the earlier are chosen.

    Counts must not exceed the number of values under the mask. Values are float32 or uint32.
    """
    ordered = _ordered(values)
    least, number = _threshold(ordered, mask, count, -1)
    chosen = mask & (ordered >= least[..., None])

    def without_latest_ties():
        surplus = chosen.sum(axis=-1) - count
        ties = mask & (ordered == least[..., None])
        place = jnp.broadcast_to(jnp.arange(mask.shape[-1], dtype=jnp.uint32), mask.shape)
        first_out, _ = _threshold(place, ties, surplus, -1)
        return chosen & ~(ties & (place >= first_out[..., None]))

    return jax.lax.cond((number > count).any(), without_latest_ties, lambda: chosen)


def quantile(values: Array, mask: Array, fraction: float) -> Array:
    """Quantile of all values under the mask, interpolated linearly as NumPy and PyTorch do by default; float32 `[]`."""
    tokens = mask.sum(dtype=jnp.float32)
    position = fraction * (tokens - 1.0)
    below = jnp.floor(position)
    rank = tokens - below
    low = kth_largest(values, mask, rank)
    higher = mask & (values > low)
    # The next value differs from `low`, unless ties with `low` fill its place.
    has_next = (rank > 1) & (higher.sum(dtype=jnp.float32) >= rank - 1)
    high = jnp.where(has_next, jnp.where(higher, values, jnp.inf).min(), low)
    return low + (position - below) * (high - low)


def random_order(keys: Array, shape: tuple[int, ...]) -> Array:
    """Random uint32 `[P, G, T]` to rank tokens by; one key for each group, `shape` is `[G, T]`.

    Hashing takes most of the time, so all its bits are used. A hash makes two words; new keys keep both, where
    `random.bits` keeps one. Each word serves two tokens, the second with its halves swapped: the upper halves, which
    decide the order, are independent; the lower halves only break ties.
    """
    group, length = shape
    split = jax.vmap(lambda key: jax.random.split(key, (group, -(-length // 4))))
    words = jnp.concatenate(jnp.moveaxis(jax.random.key_data(split(keys)), -1, 0), axis=-1)
    return jnp.concatenate([words, (words << 16) | (words >> 16)], axis=-1)[..., :length]


@functools.partial(jax.jit, static_argnames="axis")
def _threshold(ordered: Array, mask: Array, k: Array, axis: Axis) -> tuple[Array, Array]:
    """A threshold that exactly k uint32 numbers reach, or the k-th largest if ties prevent that; and how many reach it.

    Returns 0 and infinity if k exceeds the number of values.
    """
    # Up to 32 counting passes. They read single bytes, and sums over the columns of a row fit into bytes too; this is
    # several times as fast as passes over 32-bit numbers.
    length = ordered.shape[-1]
    width = min(length, 32 * -(-length // (32 * 255)))
    rows = [(0, 0)] * (ordered.ndim - 1)
    padded = jnp.pad(jnp.where(mask, ordered, 0), [*rows, (0, -length % width)])
    columns = padded.reshape(*ordered.shape[:-1], -1, width)

    def unfinished(state):
        shift, _, number = state
        # Rows are not checked for an early end: that would need communication between devices.
        return shift >= 0 if axis == -1 else (shift >= 0) & (number != k)

    def add_byte(state):
        shift, found, number = state
        base = _over_rows(found, axis, 2)
        digits = jnp.minimum((jnp.maximum(columns, base) - base) >> shift.astype(jnp.uint32), 255).astype(jnp.uint8)

        def add_bit(bit, state):
            digit, number = state
            higher = digit | (np.uint8(128) >> bit.astype(jnp.uint8))
            reached = digits >= _over_rows(higher, axis, 2)
            count = reached.sum(axis=-2, dtype=jnp.uint8).sum(axis=axis, dtype=jnp.float32)
            return jnp.where(count >= k, higher, digit), jnp.where(count >= k, count, number)

        digit, number = jax.lax.fori_loop(0, 8, add_bit, (jnp.zeros(found.shape, jnp.uint8), number))
        return shift - 8, found + (digit.astype(jnp.uint32) << shift.astype(jnp.uint32)), number

    shape = () if axis is None else ordered.shape[:-1]
    start = jnp.int32(24), jnp.zeros(shape, jnp.uint32), jnp.full(shape, jnp.inf)
    _, found, number = jax.lax.while_loop(unfinished, add_byte, start)
    return found, number


def _over_rows(numbers: Array, axis: Axis, dimensions: int = 1) -> Array:
    """Reshapes a number, or one number for each row, to broadcast against the values."""
    return numbers if axis is None else numbers.reshape(*numbers.shape, *(1,) * dimensions)


def _ordered(values: Array) -> Array:
    """uint32 numbers in the order of the values as float32; 0 and -0 are equal. uint32 values do not change."""
    if values.dtype == jnp.uint32:
        return values
    bits = jax.lax.bitcast_convert_type(jnp.where(values == 0, 0.0, values).astype(jnp.float32), jnp.uint32)
    return jnp.where(bits >= HIGHEST_BIT, ~bits, bits | HIGHEST_BIT)
