"""The importance ratio of sampled tokens, and values whose gradient has a constant weight."""

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.structures import PolicyScores, Rollouts

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to this before exp, so that one stale token cannot overflow a batch (as verl does).

Beyond it, a token weighted by its ratio has no gradient, in every surrogate."""


def log_importance_ratio(scores: PolicyScores, rollouts: Rollouts) -> Array:
    """log pi(token) - log behaviour(token), `[P, G, T]`, not clamped; 0 where the mask is False."""
    return jnp.where(rollouts.token_mask, scores.log_probs - rollouts.behaviour_log_probs, 0.0)


def importance_ratio(scores: PolicyScores, rollouts: Rollouts) -> Array:
    """pi(token) / behaviour(token), `[P, G, T]`; 1 where the mask is False."""
    return jnp.exp(jnp.clip(log_importance_ratio(scores, rollouts), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))


def with_constant_weight(weight: Array, log_ratio: Array, scores: PolicyScores, rollouts: Rollouts) -> Array:
    """`[P, G, T]`, equal to `weight`, with gradient weight * grad log pi: the weight itself is a constant.

    The gradient is zero where `log_ratio`, of the token or of the answer, lies beyond `LOG_RATIO_LIMIT`.
    """
    moves = rollouts.token_mask & (jnp.abs(log_ratio) <= LOG_RATIO_LIMIT)
    log_probs = jnp.where(moves, scores.log_probs, 0.0)
    return jax.lax.stop_gradient(weight) * jnp.exp(log_probs - jax.lax.stop_gradient(log_probs))
