"""Do the gradients of answers with opposite advantages point apart?"""

import jax.numpy as jnp
from jax import Array


def cosine(one: Array, other: Array) -> Array:
    """The cosine of vectors `[..., D]`, `[...]`; NaN where one of them is zero."""

    def dot(left, right):
        return (left * right).sum(-1)

    return dot(one, other) / jnp.sqrt(dot(one, one) * dot(other, other))


def opposite_cosines(gradients: Array, advantages: Array, close: Array) -> dict[str, Array]:
    """Cosines between A grad log pi of answers of a group whose advantages A have opposite signs.

    Args:
      gradients: `[P, G, D]`, of the log-probability of each answer.
      advantages: `[P, G]`.
      close: `[P, G, G]` bool, True for answers that are near copies.

    Returns:
      `near` and `far`, means over pairs that are close and that are not, and `gap`, far - near; `clash`, the mean
      over groups of the cosine between the sums of both signs. NaN where there is no such pair or group.
    """
    pulls = gradients * advantages[..., None]
    sign = jnp.sign(advantages)
    opposite = sign[:, :, None] * sign[:, None] < 0
    cosines = cosine(pulls[:, :, None], pulls[:, None])

    def mean(pairs):
        chosen = jnp.where(opposite & pairs, cosines, jnp.nan)
        return jnp.nanmean(chosen)

    def total(side):
        has_side = (sign == side)[..., None]
        return jnp.where(has_side, pulls, 0.0).sum(1)

    near = mean(close)
    far = mean(~close)
    return {
        "near": near,
        "far": far,
        "gap": far - near,
        "clash": jnp.nanmean(cosine(total(1), total(-1))),
    }
