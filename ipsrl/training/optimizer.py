"""The optimiser of a run."""

import functools

import optax
from jax import Array

from ipsrl.checking.arguments import checked


@checked
@functools.cache
def make_optimizer(
    name: str = "adam",
    learning_rate: float = 3e-4,
    max_gradient_norm: float | None = 1.0,
    epsilon: float = 1e-8,
    decay_steps: int | None = None,
) -> optax.GradientTransformation:
    """Adam or plain gradient descent, after clipping the gradient's global norm.

    The same arguments give the same object, so that runs of one process share compiled functions.

    Args:
      name: `adam` (betas 0.9, 0.999) or `sgd`, whose step is learning_rate times the gradient: forward Euler for the
        flows in `ipsrl.dynamics`.
      learning_rate: of the first step.
      max_gradient_norm: None for no clipping.
      epsilon: Adam divides by sqrt(v) + epsilon, so gradients far below epsilon make no step. With epsilon 1e-8, a
        float32 rounding error of 1e-9 in a zero gradient makes a step of a tenth of the learning rate.
      decay_steps: after how many steps the learning rate reaches zero, along half a cosine; None keeps it constant.
    """
    optimizers = {"adam": functools.partial(optax.adam, eps=epsilon), "sgd": optax.sgd}
    if name not in optimizers:
        raise ValueError(f"unknown optimizer {name!r}; known: {', '.join(optimizers)}")
    rate = learning_rate if decay_steps is None else optax.cosine_decay_schedule(learning_rate, decay_steps)
    transformation = optimizers[name](rate)
    return (
        transformation
        if max_gradient_norm is None
        else optax.chain(optax.clip_by_global_norm(max_gradient_norm), transformation)
    )


def at_rate(optimizer: optax.GradientTransformation, learning_rate: Array) -> optax.GradientTransformation:
    """An optimiser of `make_optimizer` with rate 1, multiplied by a traced learning rate.

    `make_optimizer` multiplies by its rate last, so the steps are bitwise those of an optimiser with that rate.
    """
    return optax.chain(optimizer, optax.scale(learning_rate))
