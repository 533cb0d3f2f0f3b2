"""Bisection of whole arrays, under jit."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array


def bisected(is_below: Callable[[Array], Array], low: Array, high: Array, steps: int) -> tuple[Array, Array]:
    """The last lower and upper ends of intervals, each halved so many times.

    Args:
      is_below: middles of intervals -> for each whether what is searched lies above it.
      low, high: the first ends, of the same shape.
      steps: how many times.
    """

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        further = is_below(middle)
        return jnp.where(further, middle, low), jnp.where(further, high, middle)

    return jax.lax.fori_loop(0, steps, halve, (low, high))
