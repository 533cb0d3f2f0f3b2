"""Soft control of a finite Markov decision process: rewards that entropy is added to (arXiv 2512.06956, our reading).

With a discount gamma in [0, 1) and a temperature lambda > 0, a policy has the value

    V_pi(s) = sum_a pi(a|s) (r(s,a) - lambda log pi(a|s) + gamma sum_s' P(s'|s,a) V_pi(s'))

which is largest, at every state, for the soft Bellman equation's solution

    Q = r + gamma P V,    V(s) = lambda log sum_a exp(Q(s,a) / lambda),    pi*(a|s) = exp((Q(s,a) - V(s)) / lambda)

Shapes: rewards, policies and their logarithms are `[..., S, A]`, transitions `[..., S, A, S]`, values `[..., S]`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ipsrl.arguments import checked, shown

MOST_ITERATIONS = 1000
ROUNDING = {"float32": 1e-5, "float64": 1e-9}
"""How far the probabilities of a distribution may be from a sum of 1."""


@checked
def soft_control(
    rewards: Array, transitions: Array, discount: float, temperature: float
) -> tuple[Array, Array]:
    """The logarithm of the soft-optimal policy, `[S, A]`, and its values `[S]`, by soft policy iteration.

    Each iteration solves for the values of the policy of the last values. That is Newton's method on the soft Bellman
    equation: values only rise, and the number of right digits doubles, also for gamma near 1. It ends where nothing
    changes but by rounding. Batches are vmapped.

    Raises:
      ValueError: the discount is not in [0, 1), the temperature is not positive, shapes differ, or transitions are no
        distributions.
    """
    check(transitions, discount, temperature, rewards=rewards)
    _require_one(rewards=rewards, transitions=transitions)
    return _soft_control(rewards, transitions, discount, temperature)


@jax.jit
def _soft_control(rewards, transitions, discount, temperature):
    scale = jnp.finfo(jnp.result_type(rewards, transitions)).eps / (1 - discount)

    def log_policy_of(values):
        q = rewards + discount * transitions @ values
        return jax.nn.log_softmax(q / temperature, axis=-1)

    def improve(carried):
        _, values, iteration = carried
        return (
            values,
            policy_values(log_policy_of(values), rewards, transitions, discount, temperature),
            iteration + 1,
        )

    def improves(carried):
        before, values, iteration = carried
        rounding = 4 * scale * (1 + jnp.abs(values).max())
        return (iteration < MOST_ITERATIONS) & (jnp.abs(values - before).max() > rounding)

    start = jnp.zeros(transitions.shape[-1], jnp.result_type(rewards, transitions))
    _, values, _ = jax.lax.while_loop(improves, improve, improve((start, start, 0)))
    return log_policy_of(values), values


@checked
def policy_values(
    log_policy: Array, rewards: Array, transitions: Array, discount: float, temperature: float
) -> Array:
    """V_pi `[..., S]`, the rewards and entropies to come under a policy of which the logarithm is given.

    Raises:
      ValueError: as `soft_control`.
    """
    check(transitions, discount, temperature, log_policy=log_policy, rewards=rewards)
    policy = jnp.exp(log_policy)
    # An action of probability 0 has the logarithm -inf and adds nothing.
    entropic = jnp.where(
        policy > 0, policy * (rewards - temperature * jnp.where(policy > 0, log_policy, 0)), 0
    )
    moves = jnp.einsum("...sa,...sat->...st", policy, transitions)
    identity = jnp.eye(moves.shape[-1])
    return jnp.linalg.solve(identity - discount * moves, entropic.sum(axis=-1)[..., None])[..., 0]


@checked
def invariant_law(policy: Array, transitions: Array) -> Array:
    """rho `[..., S, A]`: how often a long chain of the policy is in a state and takes an action.

    There must be one invariant law, as there is where every state can be reached from every other one; of several
    closed classes the result is infinite or NaN.

    Raises:
      ValueError: shapes differ, or transitions are no distributions.
    """
    check(transitions, policy=policy)
    moves = jnp.einsum("...sa,...sat->...st", policy, transitions)
    # rho (I - K) = 0 and sum rho = 1 in one system: rho (I - K + 1 1^T) = 1^T.
    system = jnp.swapaxes(jnp.eye(moves.shape[-1]) - moves + 1, -1, -2)
    states = jnp.linalg.solve(system, jnp.ones((*system.shape[:-1], 1)))[..., 0]
    return states[..., None] * policy


@checked
def regret(
    log_policy: Array, rewards: Array, transitions: Array, discount: float, temperature: float
) -> Array:
    """(1 - gamma) max_s (V*(s) - V_pi(s)), what a policy loses to the soft-optimal one, in units of a reward.

    Raises:
      ValueError: as `soft_control`.
    """
    check(transitions, discount, temperature, log_policy=log_policy, rewards=rewards)
    _require_one(log_policy=log_policy, rewards=rewards, transitions=transitions)
    return _regret(log_policy, rewards, transitions, discount, temperature)


@jax.jit
def _regret(log_policy, rewards, transitions, discount, temperature):
    best = _soft_control(rewards, transitions, discount, temperature)[1]
    lost = best - policy_values(log_policy, rewards, transitions, discount, temperature)
    return (1 - discount) * lost.max()


def check(
    transitions: Array, discount: float = 0.0, temperature: float = 1.0, **tables: Array
) -> None:
    """Raises ValueError, in one sentence, if a problem is impossible; contents of traced arrays are not looked into."""
    if not isinstance(discount, Tracer) and not 0 <= discount < 1:
        why = (
            ": at 1 values are infinite, and every reward is consistent up to a constant"
            if discount == 1
            else ""
        )
        raise ValueError(f"discount is {discount}, it must lie between 0 and below 1{why}")
    if not isinstance(temperature, Tracer) and not temperature > 0:
        why = (
            ": without entropy a policy only tells which actions are best"
            if temperature == 0
            else ""
        )
        raise ValueError(f"temperature is {temperature}, it must be positive{why}")
    shape = np.shape(transitions)
    if len(shape) < 3 or shape[-1] != shape[-3] or not shape[-2]:
        raise ValueError(f"transitions has the shape {shape}, it must be [..., S, A, S]")
    for name, table in tables.items():
        if np.shape(table)[-2:] != shape[-3:-1]:
            raise ValueError(
                f"{name} has the shape {np.shape(table)}, it must end with {shape[-3:-1]}, as transitions"
            )
        if isinstance(table, Tracer):
            continue
        host = np.asarray(table)
        if name == "policy" and not _are_distributions(host):
            raise ValueError(
                f"policy is {shown(host.tolist())}, its rows must be distributions over actions"
            )
        # Only the logarithm of a probability may be -inf.
        if not (np.isfinite(host) | (np.isneginf(host) & (name == "log_policy"))).all():
            raise ValueError(f"{name} is {shown(host.tolist())}, its numbers must be finite")
    if not isinstance(transitions, Tracer) and not _are_distributions(np.asarray(transitions)):
        raise ValueError(
            f"transitions is {shown(np.asarray(transitions).tolist())}, its rows must be distributions over states"
        )


def _are_distributions(rows: np.ndarray) -> bool:
    off = np.abs(rows.sum(axis=-1) - 1).max()
    return bool((rows >= 0).all() and off < ROUNDING.get(rows.dtype.name, 1e-5))


def _require_one(transitions: Array, **tables: Array) -> None:
    for name, array, dimensions in [
        *((name, table, 2) for name, table in tables.items()),
        ("transitions", transitions, 3),
    ]:
        if np.ndim(array) != dimensions:
            raise ValueError(
                f"{name} has the shape {np.shape(array)}, it must be of one problem: use jax.vmap for many"
            )
