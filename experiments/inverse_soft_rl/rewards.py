"""The rewards under which a policy is soft-optimal, and the one of least norm (arXiv 2512.06956, our reading)."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from experiments.inverse_soft_rl.soft_bellman import check
from ipsrl.arguments import checked, shown


@checked
def consistent_reward(
    log_policy: Array, values: Array, transitions: Array, discount: float, temperature: float
) -> Array:
    """r_V `[..., S, A]`: the reward under which the policy is soft-optimal and has the values V.

        r_V(s, a) = lambda log pi(a|s) + V(s) - gamma sum_s' P(s'|s,a) V(s')

    As V runs over all functions of the state, r_V runs over all rewards that the policy is consistent with: a class
    of dimension S, the number of states. Along a path of T certain moves all of them agree but for its ends:

        sum_t gamma^t r_V(s_t, a_t) = lambda sum_t gamma^t log pi(a_t|s_t) + V(s_0) - gamma^T V(s_T)

    Raises:
      ValueError: as `experiments.inverse_soft_rl.soft_bellman.soft_control`, or a probability is 0.
    """
    _check(log_policy, transitions, discount, temperature)
    if np.shape(values)[-1:] != np.shape(transitions)[-1:]:
        raise ValueError(
            f"values has the shape {np.shape(values)}, it must end with {np.shape(transitions)[-1]} states"
        )
    return temperature * log_policy + _advantage_of(values, transitions, discount)


@checked
def least_squares_reward(
    log_policy: Array, transitions: Array, weights: Array, discount: float, temperature: float
) -> tuple[Array, Array]:
    """The consistent reward of least norm, `[..., S, A]`, and its values V, `[..., S]`.

        V = argmin_V sum_{s,a} rho(s,a) r_V(s,a)^2

    the projection of lambda log pi off the range of I - gamma P in L2(rho). It is no estimate of the reward that an
    expert had: that one is some other member of the class, of a larger norm.

    Args:
      log_policy: `[..., S, A]`, finite.
      transitions: `[..., S, A, S]`.
      weights: rho, `[..., S, A]`. The paper's reference measure is not known to us. The invariant law of the
        demonstrations is our reading; any other one gives another member of the class. The one of uniform weights is
        the posterior mean of the reward if all rewards are independent normal numbers of one variance and mean 0,
        because the derivative of r in (log pi, V) has a determinant that does not depend on V.
      discount, temperature: gamma and lambda.

    Raises:
      ValueError: as `consistent_reward`, or a state has no weight, so that nothing determines its value.
    """
    _check(log_policy, transitions, discount, temperature)
    check(transitions, weights=weights)
    if not isinstance(weights, Tracer):
        host = np.asarray(weights)
        if not (host >= 0).all():
            raise ValueError(f"weights is {shown(host.tolist())}, no number may be negative")
        of_states = host.sum(axis=-1).reshape(-1, host.shape[-2]).min(axis=0)
        if not (of_states > 0).all():
            raise ValueError(
                f"state {int(of_states.argmin())} has no positive weight, so that demonstrations do not cover it: give "
                "every state one"
            )
    *batch, states, actions, _ = transitions.shape
    design = jnp.eye(states)[:, None] - discount * transitions
    design, target = (
        design.reshape(*batch, states * actions, states),
        -temperature * log_policy.reshape(*log_policy.shape[:-2], states * actions, 1),
    )
    roots = jnp.sqrt(weights.reshape(*weights.shape[:-2], states * actions, 1))
    orthogonal, triangle = jnp.linalg.qr(roots * design)
    values = jnp.linalg.solve(triangle, jnp.swapaxes(orthogonal, -1, -2) @ (roots * target))[..., 0]
    return temperature * log_policy + _advantage_of(values, transitions, discount), values


@checked
def norm(rewards: Array, weights: Array) -> Array:
    """`[...]`, the norm of rewards `[..., S, A]` in L2(rho): sqrt(sum_{s,a} rho(s,a) r(s,a)^2)."""
    return jnp.sqrt((weights * rewards**2).sum(axis=(-2, -1)))


def _advantage_of(values: Array, transitions: Array, discount: float) -> Array:
    return values[..., :, None] - discount * jnp.einsum("...sat,...t->...sa", transitions, values)


def _check(log_policy: Array, transitions: Array, discount: float, temperature: float) -> None:
    check(transitions, discount, temperature, log_policy=log_policy)
    if not isinstance(log_policy, Tracer) and not np.isfinite(np.asarray(log_policy)).all():
        raise ValueError(
            "log_policy is not finite: an action of probability 0 reveals no reward, so mix the policy with others"
        )
