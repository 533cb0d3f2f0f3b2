"""The limits of n times the errors of inverse reinforcement learning as the chain of demonstrations grows, exactly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ipsrl.arguments import checked
from ipsrl.inverse.rewards import least_squares_reward, norm
from ipsrl.inverse.soft_bellman import check, invariant_law

PARTS = ("policy", "transitions", "law")


@checked
def limit_of_divergence(policy: Array) -> float:
    """lim n E[KL] = S (A - 1) / 2 of the tabular maximum likelihood policy, whatever the chain.

    KL is weighted by the invariant law rho, and state s has about n rho(s) actions, which are independent given the
    states: each state adds rho(s) (A - 1) / (2 n rho(s)). How fast the chain mixes does not matter in the limit.

    Args:
      policy: `[S, A]`, all positive.

    Raises:
      ValueError: it has another shape.
    """
    if np.ndim(policy) != 2:
        raise ValueError(f"policy has the shape {np.shape(policy)}, it must be [S, A]")
    states, actions = np.shape(policy)
    return states * (actions - 1) / 2


@checked
def limit_of_reward_error(
    policy: Array, transitions: Array, discount: float, temperature: float, estimated: tuple[str, ...] = PARTS
) -> Array:
    """lim n E[||r - r_LS||^2], the norm in L2(rho), of the least-squares reward of one long chain of n steps.

    By the delta method: the chain's joint law of an action and a next state in state s, q_s, is estimated by its
    frequencies, whose covariance is (diag(q_s) - q_s q_s^T) / (n rho(s)) with independent states, and the reward's
    derivative in q is taken by JAX. The weights are the invariant law of the estimated chain, which differs from its
    visits by 1/n only; this is where the chain's mixing enters.

    Args:
      policy: `[S, A]`, all positive.
      transitions: `[S, A, S]`.
      discount, temperature: gamma and lambda.
      estimated: which of `PARTS` are estimated; the others are known.

    Raises:
      ValueError: as `least_squares_reward`, or a part is unknown.
    """
    check(transitions, discount, temperature, policy=policy)
    if not isinstance(policy, Tracer) and not (np.asarray(policy) > 0).all():
        raise ValueError("policy has an action of probability 0, which reveals no reward: mix it with others")
    if unknown := [part for part in estimated if part not in PARTS]:
        raise ValueError(f"estimated has {unknown[0]!r}, it may have {', '.join(PARTS)}")
    return _limit_of_reward_error(policy, transitions, discount, temperature, estimated)


@functools.partial(jax.jit, static_argnames="estimated")
def _limit_of_reward_error(policy, transitions, discount, temperature, estimated):
    law = invariant_law(policy, transitions)
    joint = policy[:, :, None] * transitions

    def reward_of(joint):
        marginal = joint.sum(axis=-1)
        moved = marginal / marginal.sum(axis=-1, keepdims=True)
        where = joint / marginal[..., None]
        parts = {"policy": moved, "transitions": where, "law": invariant_law(moved, where)}
        exact = {"policy": policy, "transitions": transitions, "law": law}
        used = {name: parts[name] if name in estimated else exact[name] for name in PARTS}
        return least_squares_reward(jnp.log(used["policy"]), used["transitions"], used["law"], discount, temperature)[0]

    slopes = jax.jacfwd(reward_of)(joint)  # [S, A, S, A, S]
    # Var(slope . q_s) = (sum q slope^2 - (sum q slope)^2) / (n rho(s)) for each entry of the reward and each state.
    flat, weights = slopes.reshape(*slopes.shape[:3], -1), joint.reshape(len(joint), -1)
    variance = (weights * flat**2).sum(axis=-1) - (weights * flat).sum(axis=-1) ** 2
    return norm(jnp.sqrt((variance / law.sum(axis=-1)).sum(axis=-1)), law) ** 2
