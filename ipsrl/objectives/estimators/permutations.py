"""Values dealt out at random, for placebos: the same numbers, unrelated to what they were measured on."""

import jax
import jax.numpy as jnp
from jax import Array


def permuted_among(values: Array, chosen: Array, keys: Array) -> Array:
    """`[P, G]` values, permuted in each group among the chosen answers; the others get a value of the chosen ones.

    Args:
      values: `[P, G]`.
      chosen: `[P, G]` bool.
      keys: `[P]` PRNG keys; all permutations of the chosen answers of a group are equally likely.
    """
    order = jax.vmap(lambda key: jax.random.permutation(key, values.shape[-1]))(keys)
    # Chosen answers in random order, then the others; the k-th gives its value to the k-th chosen answer.
    drawn = jnp.argsort(jnp.where(chosen, order, values.shape[-1]), axis=-1)
    dealt = jnp.take_along_axis(values, drawn, axis=-1)
    place = jnp.maximum(jnp.cumsum(chosen, axis=-1) - 1, 0)
    return jnp.take_along_axis(dealt, place, axis=-1)
