"""Do the gradients of answers with opposite advantages point apart?"""

import jax.numpy as jnp
from jax import Array


def cosine(one: Array, other: Array) -> Array:
    """Of vectors `[..., D]`; NaN where one of them is zero."""
    squares = (one**2).sum(axis=-1) * (other**2).sum(axis=-1)
    return (one * other).sum(axis=-1) / jnp.sqrt(squares)


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
    opposite = sign[:, :, None] * sign[:, None, :] < 0
    cosines = cosine(pulls[:, :, None], pulls[:, None, :])

    def mean(pairs: Array) -> Array:
        return jnp.nanmean(jnp.where(opposite & pairs, cosines, jnp.nan))

    def total(side: int) -> Array:
        return jnp.where((sign == side)[..., None], pulls, 0.0).sum(axis=1)

    near, far = mean(close), mean(~close)
    clash = jnp.nanmean(cosine(total(1), total(-1)))
    return {"near": near, "far": far, "gap": far - near, "clash": clash}
