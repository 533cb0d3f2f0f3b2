"""The perturbed policy of a combinatorial problem, y = argmax over y in Y of <s + lambda Z, y> with Z ~ N(0, 1)^D.

The risk of the oracle's own policy is piecewise constant in the scores s; that of the perturbed policy, R_lambda(s) =
E_Z f0(y*(s + lambda Z)), is smooth. Here f0(y*(.)) is one function of scores, `decided`, such as `oracle.chosen` with
the costs of an instance. lambda means nothing without the scale of the scores: `scores_of` fixes it, and whoever learns
free scores enlarges them and undoes the smoothing.

How bias and variance depend on lambda, for scores and costs with smooth densities over the instances (ours):

- The perturbation changes the solution (`crossing_probability`) with a probability of order lambda, as arXiv 2407.17200
  bounds the bias. The bias itself is of order lambda^2: a solution that is lost as often as it is won costs nothing at
  first order. For normal scores s ~ N(0, 1)^D and costs -s it is known for every oracle, R_lambda = R_0 / sqrt(1 +
  lambda^2).
- An estimate of the gradient is of size 1 / lambda where a solution changes, with a probability of order lambda: its
  variance over instances is of order 1 / lambda, not 1 / lambda^2.

Source: arXiv 2407.17200 (sets of solutions, smoothing, crossing of fans); the gradient is the usual score function.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from experiments.perturbed_policies.oracles import Oracle


def scores_of(weights: Array, features: Array) -> Array:
    """`[..., D]`, -<x_d, w> / |w| for weights `[F]` and features `[..., D, F]`, which predict costs.

    The length of the weights decides nothing, so that lambda keeps its meaning. Zero weights give NaN.
    """
    return -features @ (weights / jnp.linalg.norm(weights))


def perturbed_costs(
    decided: Callable[[Array], Array], scores: Array, noise: Array, smoothing: float
) -> Array:
    """`[M]`, f0(y*(s + lambda Z_m)): costs of M decisions of the perturbed policy; their mean estimates its risk.

    Args:
      decided: scores `[D]` -> `[]`, the cost of the oracle's solution.
      scores: `[D]`.
      noise: `[M, D]`, standard normal.
      smoothing: lambda; 0 is the oracle's own policy.
    """
    return jax.vmap(lambda each: decided(scores + smoothing * each))(noise)


def gradient_estimates(costs: Array, noise: Array, smoothing: float) -> Array:
    """`[..., M, D]`, of which each has the gradient of R_lambda in the scores as its mean: (f_m - b_m) Z_m / lambda.

    The baseline b_m is the mean cost of the other draws of the same instance. It leaves the mean as it is, and takes
    away what the cost of the instance adds to the variance.

    Args:
      costs: `[..., M]`, of the decisions, see `perturbed_costs`.
      noise: `[..., M, D]`, of the same decisions.
      smoothing: lambda; inside jit it is not looked into.

    Raises:
      ValueError: lambda is not positive, or there is one draw only and so no baseline.
    """
    if not isinstance(smoothing, Tracer) and not smoothing > 0:
        raise ValueError(
            f"smoothing is {smoothing}, it must be positive: without perturbation the risk is piecewise constant, and "
            "its gradient is 0 wherever it exists"
        )
    draws = costs.shape[-1]
    if draws < 2:
        raise ValueError(
            "there is one draw of the noise, but the baseline is the mean of the others: take two or more"
        )
    from_mean = (costs - costs.mean(axis=-1, keepdims=True)) * (draws / (draws - 1))
    return from_mean[..., None] * noise / smoothing


def crossing_probability(oracle: Oracle, scores: Array, noise: Array, smoothing: float) -> Array:
    """`[]`, the share of draws in which the perturbation changes the solution: s + lambda Z leaves the cone of the
    normal fan that s is in.

    Args:
      scores: `[D]`.
      noise: `[M, D]`.
      smoothing: lambda.
    """
    changed = oracle.solve(scores + smoothing * noise) != oracle.solve(scores)
    return changed.any(axis=-1).mean()
