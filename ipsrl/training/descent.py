"""Plain gradient descent as one scan, for what is no objective: imitation, meta-learning, exact returns."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.policies.policy import Parameters


def descended(
    gradient: Callable[[Parameters, Array], Parameters],
    first: Parameters,
    updates: int,
    record_every: int,
    learning_rate: float | Array,
) -> Parameters:
    """Parameters before the first update and after every `record_every`, leaves `[updates / record_every + 1, ...]`.

    Args:
      gradient: (parameters, number of the update) -> the slope to descend.
      updates: a multiple of `record_every`.
    """

    def update(parameters, number):
        slopes = gradient(parameters, number)
        return jax.tree.map(lambda one, by: one - learning_rate * by, parameters, slopes), None

    def interval(parameters, numbers):
        parameters, _ = jax.lax.scan(update, parameters, numbers)
        return parameters, parameters

    _, later = jax.lax.scan(interval, first, jnp.arange(updates).reshape(-1, record_every))
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, later)
