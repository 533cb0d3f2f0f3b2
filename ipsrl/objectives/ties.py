"""Equal numbers in groups: found by comparison up to rounding, never by a small number added to a divisor."""

import jax.numpy as jnp
from jax import Array


def all_equal(rewards: Array) -> Array:
    """`[P]` bool, True for groups whose rewards `[P, G]` are all equal, up to a few float32 roundings.

    Found by comparison instead of a small standard deviation: the mean of equal numbers may differ from them in the
    last bit, and dividing that difference by itself gives advantages of order one. The same happens for two scaled
    rewards that tie up to rounding, such as 0.9 / 0.6 and 0.6 / 0.4.
    """
    return rewards.max(axis=-1) - rewards.min(axis=-1) <= rounding(rewards)[..., 0]


def less_largest(values: Array, counted: Array | bool = True) -> Array:
    """Values less the largest of the group, `[P, G]`: at most 0, and exactly 0 where they differ from it by rounding.

    Divided by a temperature, a rounding of large values would be a preference. `counted`, bool `[P, G]`, leaves out
    values, which may then be above 0.
    """
    below = values - jnp.where(counted, values, -jnp.inf).max(axis=-1, keepdims=True)
    differs = jnp.abs(below) > rounding(jnp.where(counted, values, 0.0))
    return jnp.where(differs, below, 0.0)


def rounding(values: Array, axis: int | tuple[int, ...] | None = -1) -> Array:
    """Difference up to which computed numbers are equal: 8 float32 spacings of the largest along the axes, which are
    kept; `[P, 1]` for `[P, G]`.
    """
    return 8 * jnp.finfo(values.dtype).eps * jnp.abs(values).max(axis=axis, keepdims=True)
