"""The optimiser of a run."""

import functools

import optax
from jax import Array


@functools.cache
def make_optimizer(
    name: str = "adam", learning_rate: float = 3e-4, max_gradient_norm: float | None = 1.0, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Adam or plain gradient descent, after clipping the gradient's global norm.

    The same arguments give the same object, so that functions compiled for it are shared by all runs of a process.

    Args:
      name: `adam` (betas 0.9, 0.999), or `sgd`, whose step is learning_rate times the gradient: the forward Euler
        method for the flows in `ipsrl.dynamics`.
      learning_rate: constant.
      max_gradient_norm: None for no clipping.
      epsilon: of Adam, which divides by sqrt(v) + epsilon: gradients far below it make no step. Those that are 0 but
        for rounding, 1e-9 in float32, make steps of a tenth of the learning rate where it is 1e-8.
    """
    optimizers = {"adam": functools.partial(optax.adam, eps=epsilon), "sgd": optax.sgd}
    if name not in optimizers:
        raise ValueError(f"unknown optimizer {name!r}; known: {', '.join(optimizers)}")
    transformation = optimizers[name](learning_rate)
    return (
        transformation
        if max_gradient_norm is None
        else optax.chain(optax.clip_by_global_norm(max_gradient_norm), transformation)
    )


def at_rate(optimizer: optax.GradientTransformation, learning_rate: Array) -> optax.GradientTransformation:
    """An optimiser of `make_optimizer` whose rate is 1, with a rate that a compiled function is given.

    To multiply by the rate is the last that `make_optimizer` does, so that the steps are those of the rate, bit by bit.
    """
    return optax.chain(optimizer, optax.scale(learning_rate))
