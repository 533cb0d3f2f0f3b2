"""All randomness of a run is a function of (seed, step, stream), so a resumed run samples the same numbers."""

import zlib

import jax
from jax import Array

LARGEST_SEED = 2**31 - 1
"""Largest seed of a run; the smallest is 0."""


def stream(seed: int | Array, step: int | Array, name: str) -> Array:
    """The key of the stream `name` at a step, for a seed below 2^31; streams of different names are independent."""
    return _stream(seed, step, zlib.crc32(name.encode()) & 0x7FFFFFFF)


# Compiled, because operation by operation it would take the host several milliseconds of every step.
@jax.jit
def _stream(seed, step, number):
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), number)
