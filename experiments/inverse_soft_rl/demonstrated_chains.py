"""Chains of demonstrations: how often each of their transitions happens, and the limits of what they leave unknown."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.inverse_soft_rl.rewards import least_squares_reward, norm
from experiments.inverse_soft_rl.soft_bellman import invariant_law

LONGEST = 100_000_000
BLOCK = 10_000
"""Steps of which the random numbers are drawn at once."""


def chain_counts(
    policy: np.ndarray,
    transitions: np.ndarray,
    lengths: Sequence[int],
    seeds: Sequence[int],
) -> np.ndarray:
    """`[N, L, S, A, S]`: how often each transition happened in the first steps of one chain for each of N seeds.

    The chain starts with its invariant law. A longer chain goes on where a shorter one ends, so the counts of one
    seed at different lengths are dependent, those of different seeds are not.

    Args:
      policy, transitions: `[S, A]` and `[S, A, S]` of NumPy.
      lengths: L numbers of steps, rising.
      seeds: N of them.
    """
    law = invariant_law(policy, transitions).sum(axis=-1)
    states, actions = policy.shape
    moves = policy[:, :, None] * transitions
    bounds = np.cumsum(moves.reshape(states, -1), axis=-1)
    # Exactly 1 behind the last possible move, so that rounding makes no other one possible.
    bounds = (bounds / bounds[:, -1:])[:, :-1]
    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
    state = jax.vmap(lambda key: jax.random.choice(key, states, p=law))(keys)
    counts = np.zeros((len(seeds), states, states * actions), np.int64)
    found, done, block = [], 0, 0
    for length in lengths:
        while done < length:
            steps = min(BLOCK, length - done)
            state, moves = _walk(bounds, keys, block, state, steps)
            for row, of_seed in enumerate(np.asarray(moves).T):
                happened = np.bincount(of_seed, minlength=counts[row].size)
                counts[row] += happened.reshape(counts[row].shape)
            done, block = done + steps, block + 1
        found.append(counts.reshape(-1, states, actions, states).copy())
    return np.stack(found, axis=1)


@functools.partial(jax.jit, static_argnums=4)
def _walk(
    bounds: Array,
    keys: Array,
    block: int,
    state: Array,
    steps: int,
) -> tuple[Array, Array]:
    """The states `[N]` after some steps, and the moves `[steps, N]`, each (state * A + action) * S + next state."""
    states, choices = bounds.shape[0], bounds.shape[1] + 1

    def drawn(key):
        of_block = jax.random.fold_in(key, block + 1)
        return jax.random.uniform(of_block, (steps,))

    def step(state, draw):
        passed = draw[:, None] >= bounds[state]
        choice = passed.sum(axis=-1).astype(jnp.int32)
        return choice % states, state * choices + choice

    draws = jax.vmap(drawn)(keys).T
    return jax.lax.scan(step, state.astype(jnp.int32), draws, unroll=8)


@jax.jit
def limit_of_reward_error(
    policy: Array,
    transitions: Array,
    discount: float,
) -> Array:
    """lim n E[||r - r_LS||^2], the norm in L2(rho), of the least-squares reward of one long chain of n steps.

    By the delta method: the chain's joint law of an action and a next state in state s, q_s, is estimated by its
    frequencies, whose covariance is (diag(q_s) - q_s q_s^T) / (n rho(s)) with independent states, and the reward's
    derivative in q is taken by JAX. The weights are the invariant law of the estimated chain, which differs from its
    visits by 1/n only; this is where the chain's mixing enters.

    Args:
      policy: `[S, A]`, all positive.
      transitions: `[S, A, S]`.
      discount: gamma.
    """
    law = invariant_law(policy, transitions)
    joint = policy[:, :, None] * transitions

    def reward_of(joint):
        marginal = joint.sum(axis=-1)
        moved = marginal / marginal.sum(axis=-1, keepdims=True)
        where = joint / marginal[..., None]
        estimated = invariant_law(moved, where)
        return least_squares_reward(jnp.log(moved), where, estimated, discount)

    slopes = jax.jacfwd(reward_of)(joint)  # [S, A, S, A, S]
    # Var(slope . q_s) = (sum q slope^2 - (sum q slope)^2) / (n rho(s)) for each entry of the reward and each state.
    flat = slopes.reshape(*slopes.shape[:3], -1)
    weights = joint.reshape(len(joint), -1)
    squares = (weights * flat**2).sum(axis=-1)
    means = (weights * flat).sum(axis=-1)
    variance = (squares - means**2) / law.sum(axis=-1)
    deviation = jnp.sqrt(variance.sum(axis=-1))
    return norm(deviation, law) ** 2
