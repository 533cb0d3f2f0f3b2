"""The path of expected training through the policies, whatever its speed."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import softmax

from ipsrl.arguments import checked
from ipsrl.dynamics.field import Field


@checked
def path(field: Field, start: Sequence[float], length: float, steps: int) -> np.ndarray:
    """Distributions `[steps + 1, K]` on the path of the field from a start, in steps of equal length.

        z <- z + length * field(z) / max_i |field_i(z)|

    Objectives that differ by a positive factor, even one that depends on the policy, such as a learning rate or a
    division by the standard deviation, have the same path and follow it at different speeds. Where the field jumps or
    rests, the policy stays within about a step.

    Args:
      field: the expected update of an objective.
      start: `[K]`, a distribution of positive probabilities.
      length: of one step, the largest change of a logit.
      steps: number of steps.

    Raises:
      ValueError: the start is not such a distribution, a length or a number is not positive, or the field is not on a
        bandit.
    """
    if not 0 < length < np.inf or steps < 1:
        raise ValueError(f"length is {length} and steps is {steps}, both must be positive")
    field.require_bandit("paths")
    return field.evaluate(
        functools.partial(_path, length, steps), field.logits_of([start], "start")[0]
    )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _path(length, steps, batch, logits, rewards, reference):
    def step(logits, _):
        velocity = batch.update(logits, rewards, reference)
        speed = jnp.abs(velocity).max()
        logits = logits + jnp.where(
            speed > 0, length * velocity / jnp.where(speed > 0, speed, 1.0), 0.0
        )
        return logits, softmax(logits)

    _, later = jax.lax.scan(step, logits, length=steps)
    return jnp.concatenate([softmax(logits)[None], later])
