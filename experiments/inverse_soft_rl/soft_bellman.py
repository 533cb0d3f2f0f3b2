"""Soft control of a finite Markov decision process: rewards that entropy is added to (arXiv 2512.06956, our reading).

With a discount gamma in [0, 1), and rewards in units of the temperature lambda, a policy has the value

    V_pi(s) = sum_a pi(a|s) (r(s,a) - log pi(a|s) + gamma sum_s' P(s'|s,a) V_pi(s'))

which is largest, at every state, for the soft Bellman equation's solution

    Q = r + gamma P V,    V(s) = log sum_a exp Q(s,a),    pi*(a|s) = exp(Q(s,a) - V(s))

Shapes: rewards, policies and their logarithms are `[..., S, A]`, transitions `[..., S, A, S]`, values `[..., S]`.
"""

import jax
import jax.numpy as jnp
from jax import Array

MOST_ITERATIONS = 1000


@jax.jit
def soft_control(
    rewards: Array,
    transitions: Array,
    discount: float,
) -> tuple[Array, Array]:
    """The logarithm of the soft-optimal policy, `[S, A]`, and its values `[S]`, by soft policy iteration.

    Each iteration solves for the values of the policy of the last values. That is Newton's method on the soft Bellman
    equation: values only rise, and the number of right digits doubles, also for gamma near 1. It ends where nothing
    changes but by rounding. Batches are vmapped.
    """
    scale = jnp.finfo(jnp.result_type(rewards, transitions)).eps / (1 - discount)

    def log_policy_of(values):
        q = rewards + discount * transitions @ values
        return jax.nn.log_softmax(q, axis=-1)

    def improve(carried):
        _, values, iteration = carried
        log_policy = log_policy_of(values)
        better = policy_values(log_policy, rewards, transitions, discount)
        return values, better, iteration + 1

    def improves(carried):
        before, values, iteration = carried
        rounding = 4 * scale * (1 + jnp.abs(values).max())
        return (iteration < MOST_ITERATIONS) & (jnp.abs(values - before).max() > rounding)

    start = jnp.zeros(transitions.shape[-1], jnp.result_type(rewards, transitions))
    _, values, _ = jax.lax.while_loop(improves, improve, improve((start, start, 0)))
    return log_policy_of(values), values


def policy_values(
    log_policy: Array,
    rewards: Array,
    transitions: Array,
    discount: float,
) -> Array:
    """V_pi `[..., S]`, the rewards and entropies to come under a policy of which the logarithm is given."""
    policy = jnp.exp(log_policy)
    # An action of probability 0 has the logarithm -inf and adds nothing.
    entropic = policy * (rewards - log_policy)
    entropic = jnp.where(policy > 0, entropic, 0)
    moves = jnp.einsum("...sa,...sat->...st", policy, transitions)
    identity = jnp.eye(moves.shape[-1])
    earned = entropic.sum(axis=-1)[..., None]
    return jnp.linalg.solve(identity - discount * moves, earned)[..., 0]


def invariant_law(
    policy: Array,
    transitions: Array,
) -> Array:
    """rho `[..., S, A]`: how often a long chain of the policy is in a state and takes an action.

    There must be one invariant law, as there is where every state can be reached from every other one; of several
    closed classes the result is infinite or NaN.
    """
    moves = jnp.einsum("...sa,...sat->...st", policy, transitions)
    # rho (I - K) = 0 and sum rho = 1 in one system: rho (I - K + 1 1^T) = 1^T.
    system = jnp.swapaxes(jnp.eye(moves.shape[-1]) - moves + 1, -1, -2)
    ones = jnp.ones((*system.shape[:-1], 1))
    states = jnp.linalg.solve(system, ones)[..., 0]
    return states[..., None] * policy


@jax.jit
def regret(
    log_policy: Array,
    rewards: Array,
    transitions: Array,
    discount: float,
) -> Array:
    """(1 - gamma) max_s (V*(s) - V_pi(s)), what a policy loses to the soft-optimal one, in units of a reward."""
    _, best = soft_control(rewards, transitions, discount)
    lost = best - policy_values(log_policy, rewards, transitions, discount)
    return (1 - discount) * lost.max()
