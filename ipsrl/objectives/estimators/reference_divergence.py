"""KL(policy || reference), estimated at the sampled tokens, and the adaptation of its coefficient."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT
from ipsrl.structures import Rollouts, masked_sum

RewardEstimator = Literal["k1", "k2", "k3"]


def token_divergence(log_probs: Array, rollouts: Rollouts, estimator: RewardEstimator) -> Array:
    """`[P, G, T]` nats, 0 where the mask is False; d = log pi - log pi_ref of the sampled token.

        k1 = d                       unbiased in value
        k2 = d^2 / 2
        k3 = exp(-d) + d - 1 >= 0    unbiased in value

    In k3, d is clamped to [-20, 20] as in verl: the gradient is zero beyond. verl's second clamp, of k3 itself to 10,
    is omitted.
    """
    difference = jnp.where(rollouts.token_mask, log_probs - rollouts.reference_log_probs, 0.0)
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference**2 / 2
    difference = jnp.clip(difference, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return jnp.exp(-difference) + difference - 1.0


def mean_answer_divergence(rollouts: Rollouts) -> Array:
    """KL(behaviour || reference) in nats per answer, `[]`: the mean over answers of the summed k1."""
    divergence = masked_sum(token_divergence(rollouts.behaviour_log_probs, rollouts, "k1"), rollouts.token_mask)
    return divergence / jnp.maximum(rollouts.answered.sum(), 1)


def adapted_coefficient(coefficient: Array, divergence: Array, target: float, gain: float) -> Array:
    """The coefficient for the next batch, moved so that the divergence settles at `target` (arXiv 1909.08593).

        coefficient * (1 + gain * clip(KL / target - 1, -0.2, 0.2))

    KL is `mean_answer_divergence`.
    """
    return coefficient * (1.0 + gain * jnp.clip(divergence / target - 1.0, -0.2, 0.2))
