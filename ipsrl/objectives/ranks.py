"""Ranks without sorting: the k-th largest, quantiles and the largest of many values, of a whole batch or of each row.

A sort of all tokens takes some fifty times as long as the rest of an objective, and gathers them on each device. Here
the k-th largest is found bit by bit, by counting how many values are at least as large: nothing but counts moves.

Everywhere, values are `[..., T]`, and so is the mask; what lies outside the mask may be anything. `axis=None` ranks all
values together, for k `[]`; `axis=-1` those of each row, for k `[...]`.
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
    """The k-th largest of float32 values under the mask, exact; k from 1 to their number."""
    return _float(_kth_largest(_ordered(values), mask, k, axis))


def largest(values: Array, mask: Array, count: Array) -> Array:
    """True on the `count` largest values of all under the mask, and on ties with the last of them.

    On all if there are fewer; nothing is chosen where the mask is empty. Values are float32, or uint32.
    """
    ordered = _ordered(values)
    count = jnp.minimum(count, mask.sum(dtype=jnp.float32))
    return mask & (ordered >= _kth_largest(ordered, mask, count, None))


def largest_of_rows(values: Array, mask: Array, count: Array) -> Array:
    """True on exactly `count` `[...]` of the largest values of each row, the earlier ones where they tie.

    Counts are at most the numbers of values under the mask. Values are float32, or uint32.
    """
    ordered = _ordered(values)
    last = _kth_largest(ordered, mask, count, -1)[..., None]
    above, ties = mask & (ordered > last), mask & (ordered == last)
    missing = count - above.sum(axis=-1)

    def earliest():
        earliness = jnp.broadcast_to(jnp.arange(mask.shape[-1], 0, -1, dtype=jnp.uint32), mask.shape)
        return ties & (earliness >= _kth_largest(earliness, ties, missing, -1)[..., None])

    crowded = (ties.sum(axis=-1) > missing).any()
    return above | jax.lax.cond(crowded, earliest, lambda: ties)


def quantile(values: Array, mask: Array, fraction: float) -> Array:
    """Quantile of all values under the mask, interpolated linearly as NumPy and PyTorch do by default; float32 `[]`."""
    tokens = mask.sum(dtype=jnp.float32)
    position = fraction * (tokens - 1.0)
    below = jnp.floor(position)
    rank = tokens - below
    low = kth_largest(values, mask, rank)
    higher = mask & (values > low)
    # The value after `low` is another one, unless more values than those before it tie with it.
    has_next = (rank > 1) & (higher.sum(dtype=jnp.float32) >= rank - 1)
    high = jnp.where(has_next, jnp.where(higher, values, jnp.inf).min(), low)
    return low + (position - below) * (high - low)


def random_order(keys: Array, shape: tuple[int, int]) -> Array:
    """Random uint32 `[P, G, T]` to rank tokens by; one key for each group, `shape` is `[G, T]`.

    Each random word serves two tokens, its halves swapped for the second one, as drawing them is what takes the time.
    The upper halves, which decide, are independent of each other; the lower ones only separate ties.
    """
    group, length = shape
    words = jax.vmap(lambda key: jax.random.bits(key, (group, -(-length // 2))))(keys)
    return jnp.concatenate([words, (words << 16) | (words >> 16)], axis=-1)[..., :length]


@functools.partial(jax.jit, static_argnames="axis")
def _kth_largest(ordered: Array, mask: Array, k: Array, axis: Axis) -> Array:
    """Of uint32 numbers; the largest number there is where k is 0, and 0 where k is more than there are."""
    # Counting takes 32 passes. They are over single bytes, and sums over blocks of a row fit into bytes as well, which
    # is several times as fast as passes over 32-bit numbers.
    length = ordered.shape[-1]
    width = 32 * -(-length // (32 * 255))
    rows = [(0, 0)] * (ordered.ndim - 1)
    padded = jnp.pad(jnp.where(mask, ordered, 0), [*rows, (0, -length % width)])
    blocks = padded.reshape(*ordered.shape[:-1], -1, width)

    def add_byte(position, found):
        shift = jnp.uint32(24) - 8 * position.astype(jnp.uint32)
        base = found if axis is None else found[..., None, None]
        # A byte's worth of distance above what is found so far: comparing it is comparing the numbers themselves.
        digits = jnp.where(blocks >= base, jnp.minimum((blocks - base) >> shift, 255), 0).astype(jnp.uint8)

        def add_bit(bit, digit):
            higher = digit | (np.uint8(128) >> bit.astype(jnp.uint8))
            reached = digits >= (higher if axis is None else higher[..., None, None])
            count = reached.sum(axis=-2, dtype=jnp.uint8).sum(axis=axis, dtype=jnp.float32)
            return jnp.where(count >= k, higher, digit)

        digit = jax.lax.fori_loop(0, 8, add_bit, jnp.zeros(found.shape, jnp.uint8))
        return found + (digit.astype(jnp.uint32) << shift)

    return jax.lax.fori_loop(0, 4, add_byte, jnp.zeros(() if axis is None else ordered.shape[:-1], jnp.uint32))


def _ordered(values: Array) -> Array:
    """uint32 numbers in the order of the float32 values; 0 and -0 are one. uint32 values are in order as they are."""
    if values.dtype == jnp.uint32:
        return values
    bits = jax.lax.bitcast_convert_type(jnp.where(values == 0, 0.0, values), jnp.uint32)
    return jnp.where(bits >= HIGHEST_BIT, ~bits, bits | HIGHEST_BIT)


def _float(ordered: Array) -> Array:
    """Undoes `_ordered` of float32 values."""
    bits = jnp.where(ordered >= HIGHEST_BIT, ordered ^ HIGHEST_BIT, ~ordered)
    return jax.lax.bitcast_convert_type(bits, jnp.float32)
