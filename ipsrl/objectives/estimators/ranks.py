"""Ranks without sorting: the k-th largest, quantiles and the largest of many values, of a whole batch or of each row.

A sort of all tokens takes some fifty times as long as the rest of an objective, and gathers them on each device. Here
the k-th largest is found bit by bit, by counting how many values are at least as large: nothing but counts moves.

Everywhere, values are `[..., T]`, and so is the mask; what lies outside the mask may be anything. `axis=None` ranks all
values together, for k `[]`; `axis=-1` those of each row, for k `[...]`. Counts are float32, exact up to 2^24 values.
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
    ordered = _ordered(values)
    least, _ = _threshold(ordered, mask, k, axis)
    return jnp.where(mask & (ordered >= _over_rows(least, axis)), values, jnp.inf).min(axis=axis)


def largest(values: Array, mask: Array, count: Array) -> Array:
    """True on the `count` largest values of all under the mask, and on ties with the last of them.

    On all if there are fewer; nothing is chosen where the mask is empty. Values are float32, or uint32.
    """
    ordered = _ordered(values)
    least, _ = _threshold(ordered, mask, count, None)
    return mask & (ordered >= least)


def largest_of_rows(values: Array, mask: Array, count: Array) -> Array:
    """True on exactly `count` `[...]` of the largest values of each row, the earlier ones where they tie.

    Counts are at most the numbers of values under the mask. Values are float32, or uint32.
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
    # The value after `low` is another one, unless more values than those before it tie with it.
    has_next = (rank > 1) & (higher.sum(dtype=jnp.float32) >= rank - 1)
    high = jnp.where(has_next, jnp.where(higher, values, jnp.inf).min(), low)
    return low + (position - below) * (high - low)


def random_order(keys: Array, shape: tuple[int, ...]) -> Array:
    """Random uint32 `[P, G, T]` to rank tokens by; one key for each group, `shape` is `[G, T]`.

    Hashing takes the time, so none of it is wasted. New keys are both of the words that a hash makes, of which
    `random.bits` makes one. And each word serves two tokens, its halves swapped for the second one: the upper halves,
    which decide, are independent of each other; the lower ones only separate ties.
    """
    group, length = shape
    split = jax.vmap(lambda key: jax.random.split(key, (group, -(-length // 4))))
    words = jnp.concatenate(jnp.moveaxis(jax.random.key_data(split(keys)), -1, 0), axis=-1)
    return jnp.concatenate([words, (words << 16) | (words >> 16)], axis=-1)[..., :length]


@functools.partial(jax.jit, static_argnames="axis")
def _threshold(ordered: Array, mask: Array, k: Array, axis: Axis) -> tuple[Array, Array]:
    """The k-th largest of uint32 numbers, or a smaller one which k of them reach; and how many reach it.

    0 and infinity where k is more than there are.
    """
    # Counting takes up to 32 passes. They are over single bytes, and sums over columns of a row fit into bytes as well,
    # which is several times as fast as passes over 32-bit numbers.
    length = ordered.shape[-1]
    width = min(length, 32 * -(-length // (32 * 255)))
    rows = [(0, 0)] * (ordered.ndim - 1)
    padded = jnp.pad(jnp.where(mask, ordered, 0), [*rows, (0, -length % width)])
    columns = padded.reshape(*ordered.shape[:-1], -1, width)

    def unfinished(state):
        shift, _, number = state
        # Rows are not asked whether they are done: those on other devices would have to answer too.
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
    """Numbers, or one for each row, against values."""
    return numbers if axis is None else numbers.reshape(*numbers.shape, *(1,) * dimensions)


def _ordered(values: Array) -> Array:
    """uint32 numbers in the order of the values as float32; 0 and -0 are one. uint32 values stay as they are."""
    if values.dtype == jnp.uint32:
        return values
    bits = jax.lax.bitcast_convert_type(jnp.where(values == 0, 0.0, values).astype(jnp.float32), jnp.uint32)
    return jnp.where(bits >= HIGHEST_BIT, ~bits, bits | HIGHEST_BIT)
