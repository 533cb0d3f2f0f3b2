"""The perturbed policy of a combinatorial problem, y = argmax over y in Y of <s + lambda Z, y> with Z ~ N(0, 1)^D.

The risk of the oracle's own policy is piecewise constant in the scores s; that of the perturbed policy, R_lambda(s) =
E_Z f0(y*(s + lambda Z)), is smooth. Here f0(y*(.)) is one function of scores and costs, such as `GridPath.chosen`.
lambda means nothing without the scale of the scores: `scores_of` fixes it, and whoever learns
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

from experiments.perturbed_policies.oracles import Oracle

Decided = Callable[[Array, Array], Array]
"""(scores `[D]`, costs of an instance) -> `[]`, the cost of the decision."""


def scores_of(weights: Array, features: Array) -> Array:
    """`[..., D]`, -<x_d, w> / |w| for weights `[F]` and features `[..., D, F]`, which predict costs.

    The length of the weights decides nothing, so that lambda keeps its meaning. Zero weights give NaN.
    """
    return -features @ (weights / jnp.linalg.norm(weights))


def perturbed_costs(
    decided: Decided,
    scores: Array,
    costs: Array,
    noise: Array,
    smoothing: float,
) -> Array:
    """`[M]`, f0(y*(s + lambda Z_m)): costs of M decisions of the perturbed policy; their mean estimates its risk.

    Args:
      scores: `[D]`.
      costs: of the instance.
      noise: `[M, D]`, standard normal.
      smoothing: lambda; 0 is the oracle's own policy.
    """
    return jax.vmap(lambda each: decided(scores + smoothing * each, costs))(noise)


def gradient_estimates(costs: Array, noise: Array, smoothing: float) -> Array:
    """`[..., M, D]`, of which each has the gradient of R_lambda in the scores as its mean: (f_m - b_m) Z_m / lambda.

    The baseline b_m is the mean cost of the other draws of the same instance. It leaves the mean as it is, and takes
    away what the cost of the instance adds to the variance.

    Args:
      costs: `[..., M]`, of two or more decisions, see `perturbed_costs`.
      noise: `[..., M, D]`, of the same decisions.
      smoothing: lambda, positive: without perturbation the gradient is 0 wherever it exists.
    """
    draws = costs.shape[-1]
    from_mean = (costs - costs.mean(axis=-1, keepdims=True)) * (draws / (draws - 1))
    return from_mean[..., None] * noise / smoothing


def crossing_probability(
    oracle: Oracle,
    scores: Array,
    noise: Array,
    smoothing: float,
) -> Array:
    """`[]`, the share of draws `[M, D]` that change the solution: s + lambda Z leaves s's cone of the normal fan."""
    changed = oracle.solve(scores + smoothing * noise) != oracle.solve(scores)
    return changed.any(axis=-1).mean()
