"""The path of expected training through the policies, whatever its speed."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import softmax

from ipsrl.dynamics.field import Field


def path(field: Field, start: Sequence[float], length: float, steps: int) -> np.ndarray:
    """Distributions `[steps + 1, K]` on the path of a bandit's field from a start, in steps of equal length.

        z <- z + length * field(z) / max_i |field_i(z)|

    Objectives that differ by a positive factor, even one that depends on the policy, such as a learning rate or a
    division by the standard deviation, have the same path and follow it at different speeds. Where the field jumps or
    rests, the policy stays within about a step.
    """
    (logits,) = field.logits_of([start], "start")
    return field.evaluate(functools.partial(_path, length, steps), logits)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _path(length, steps, batch, logits, rewards, reference):
    def step(logits, _):
        velocity = batch.update(logits, rewards, reference)
        speed = jnp.maximum(jnp.abs(velocity).max(), jnp.finfo(velocity.dtype).tiny)
        logits = logits + length * velocity / speed
        probs = softmax(logits)
        return logits, probs

    _, later = jax.lax.scan(step, logits, length=steps)
    return jnp.concatenate([softmax(logits)[None], later])
