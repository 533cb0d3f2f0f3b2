"""Regression under covariate shift by a class that is wrong everywhere: disagreement-based (arXiv 2401.12216).

A class F of functions comes within eps of the target f* at every input, not closer. Test inputs are up to C times as
likely as in training. Least squares may prefer a function that is better than eps on the common inputs, and wrong by
eps sqrt(C) on the rare ones: a test error of C eps^2. Disagreement-based regression compares functions pairwise, each
pair only where the two differ by a threshold tau:

    f^ = argmin_f max_g L(f, g),   L(f, g) = 1/n sum_i gate(|f(x_i) - g(x_i)|) {(f(x_i) - y_i)^2 - (g(x_i) - y_i)^2}

with gate(d) = 1[d >= tau], tau = 3 eps. Our reading: the paper's abstract and summaries give the disagreement filter
and the minimax form; the threshold's multiple and ties (below) are ours, and `experiments.covariate_shift` shows how
much they matter. Why it works (derived): where the best function, within eps everywhere, differs from another one by
over 2 eps, it is nearer to f*, so that it loses to none; what is left unseen differs from it by less than tau, and from
f* by less than tau + eps, wherever test inputs lie.

Data are numbers of samples and sums of targets at M inputs, which is all that squared errors need: 1 and y_i at inputs
that are all different.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

TINY = 1e-12
"""Relative size below which maxima of L, sums of rounded numbers, count as equal."""
ASCENTS = 3


def gate(
    difference: Array,
    threshold: float,
    width: float = 0.0,
) -> Array:
    """How much inputs count at which two functions differ so much: 1[|d| >= tau], or sigmoid((|d| - tau) / width).

    Networks need a width, because the hard gate (width 0) has no gradient. Arrays of any shape.
    """
    beyond = jnp.abs(difference) - threshold
    smooth = jax.nn.sigmoid(beyond / jnp.where(width > 0, width, 1.0))
    return jnp.where(width > 0, smooth, beyond >= 0)


def compared(
    first: Array,
    second: Array,
    counts: Array,
    sums: Array,
    threshold: float,
    width: float = 0.0,
) -> Array:
    """L(f, g), by how much f's squared error is above g's where they differ, per sample; differentiable with a width.

    Args:
      first, second: `[..., M]`, values of f and g at the inputs.
      counts, sums: `[M]` or `[M, S]` for S sets of data: number of samples, and sum of targets, at each input.
      threshold, width: of `gate`.

    Returns:
      `[...]` or `[..., S]`.
    """
    # (f - y)^2 - (g - y)^2 = (f - g) (f + g - 2y).
    counted = gate(first - second, threshold, width) * (first - second)
    total = (counted * (first + second)) @ counts - 2 * counted @ sums
    return total / counts.sum(axis=0)


def least_squares(values: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The index of the function with the least squared error, `[S]`, the first of several.

    Arguments are those of `disagreement_regression`.
    """
    return _risks(values, counts, sums).argmin(axis=0)


def disagreement_regression(
    values: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    threshold: float,
    width: float = 0.0,
) -> np.ndarray:
    """The index of argmin_f max_g L(f, g), `[S]`, by comparing all pairs of a finite class, in float64.

    Often there are several minima, see `undefeated`. Then the one with the least squared error is taken (ours), the
    first of several. With a threshold of 0 that is always least squares.

    Args:
      values: `[F, M]`, each function at each input.
      counts: `[M, S]`, number of samples at each input, in each of S sets of data; or shares of a population.
      sums: `[M, S]`, sum of their targets.
      threshold: tau.
      width: of a smooth gate; 0 for the hard one.
    """
    found = undefeated(values, counts, sums, threshold, width)
    risks = _risks(values, counts, sums)
    return np.where(found, risks, np.inf).argmin(axis=0)


def undefeated(
    values: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    threshold: float,
    width: float = 0.0,
) -> np.ndarray:
    """`[F, S]` bool, the functions at which max_g L(f, g) is least: those that lose to none, if there are any.

    There are several where no sample lies at inputs at which they differ, or where none differs from them by the
    threshold. Arguments are those of `disagreement_regression`.
    """
    with jax.enable_x64(True):
        worst = np.asarray(_worst(values, counts, sums, threshold, width))
    largest = np.abs(_risks(values, counts, sums)).max(axis=0)
    rounding = TINY * (1 + largest)
    return worst <= worst.min(axis=0) + rounding


@jax.jit
def _worst(
    values: Array,
    counts: Array,
    sums: Array,
    threshold: float,
    width: float,
) -> Array:
    """`[F, S]`, the maximum of L(f, g) over g."""
    return jax.lax.map(
        lambda first: compared(first, values, counts, sums, threshold, width).max(axis=0), values
    )


def _risks(values: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """`[F, S]`, the mean squared error less the mean of y^2, which all functions share."""
    return (values**2 @ counts - 2 * values @ sums) / counts.sum(axis=0)


def smooth_game(
    loss: Callable[[Any, Any], Array],
    first: Any,
    second: Any,
    steps: int,
    rate: float,
) -> tuple[Any, Any]:
    """The parameters of two networks after a game: g climbs L(f, g) and f descends, by Adam.

    g takes `ASCENTS` steps to each one of f.

    Our reading of what to do without a finite class. It depends on its start: where f already fits the common inputs
    its gradient at the rare ones may vanish, and where f and g agree everywhere a narrow gate has no gradient. So run
    it from several starts, and let `disagreement_regression` choose among the networks.

    Args:
      loss: parameters of f and of g -> L(f, g) with a smooth gate.
      first, second: parameters of f and g at the start.
      steps: of f.
      rate: learning rate of both.
    """
    optimizer = optax.adam(rate)

    def climb(second, state, first):
        gradient = jax.grad(lambda g: -loss(first, g))(second)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(second, updates), state

    def step(carried, _):
        first, second, of_first, of_second = carried
        for _ in range(ASCENTS):
            second, of_second = climb(second, of_second, first)
        updates, of_first = optimizer.update(jax.grad(loss)(first, second), of_first)
        return (optax.apply_updates(first, updates), second, of_first, of_second), None

    start = first, second, optimizer.init(first), optimizer.init(second)
    (first, second, _, _), _ = jax.lax.scan(step, start, length=steps)
    return first, second
