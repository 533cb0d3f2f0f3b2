"""The rewards under which a policy is soft-optimal, and the one of least norm (arXiv 2512.06956, our reading)."""

import jax.numpy as jnp
from jax import Array


def least_squares_reward(
    log_policy: Array,
    transitions: Array,
    weights: Array,
    discount: float,
) -> Array:
    """The consistent reward of least norm, `[..., S, A]`.

    For all functions V of the state, the policy is soft-optimal and has these values under

        r_V(s, a) = log pi(a|s) + V(s) - gamma sum_s' P(s'|s,a) V(s')

    and under no other reward: it is consistent with a class of dimension S. Along a path of T certain moves all members
    agree but for its ends:

        sum_t gamma^t r_V(s_t, a_t) = sum_t gamma^t log pi(a_t|s_t) + V(s_0) - gamma^T V(s_T)

    Of the class this is the one with

        V = argmin_V sum_{s,a} rho(s,a) r_V(s,a)^2

    the projection of log pi off the range of I - gamma P in L2(rho). It is no estimate of the reward that an
    expert had: that one is some other member of the class, of a larger norm.

    Args:
      log_policy: `[..., S, A]`, finite.
      transitions: `[..., S, A, S]`.
      weights: rho, `[..., S, A]`. The paper's reference measure is not known to us. The invariant law of the
        demonstrations is our reading; any other one gives another member of the class. The one of uniform weights is
        the posterior mean of the reward if all rewards are independent normal numbers of one variance and mean 0,
        because the derivative of r in (log pi, V) has a determinant that does not depend on V.
      discount: gamma.
    """
    *batch, states, actions, _ = transitions.shape
    pairs = states * actions
    advantages = jnp.eye(states)[:, None] - discount * transitions
    design = advantages.reshape(*batch, pairs, states)
    logs = log_policy.reshape(*log_policy.shape[:-2], pairs, 1)
    roots = jnp.sqrt(weights.reshape(*weights.shape[:-2], pairs, 1))
    target = roots * -logs
    orthogonal, triangle = jnp.linalg.qr(roots * design)
    projected = jnp.swapaxes(orthogonal, -1, -2) @ target
    values = jnp.linalg.solve(triangle, projected)[..., 0]
    later = jnp.einsum("...sat,...t->...sa", transitions, values)
    advantage = values[..., None] - discount * later
    return log_policy + advantage


def norm(rewards: Array, weights: Array) -> Array:
    """`[...]`, the norm of rewards `[..., S, A]` in L2(rho): sqrt(sum_{s,a} rho(s,a) r(s,a)^2)."""
    squares = weights * rewards**2
    return jnp.sqrt(squares.sum(axis=(-2, -1)))
