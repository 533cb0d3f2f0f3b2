"""Offline model-based reinforcement learning that lowers values where a model leads and data do not: COMBO and DROMO.

A model of a finite Markov decision process is learned from data, and a policy is improved in it. COMBO (arXiv
2102.08363) lowers Q where the policy goes in the model, and raises it in the data. DROMO (arXiv 2109.07275) lowers it
for the worst distribution near that of the model. Its formulas are our reading, from its abstract:

    critic: argmin_Q  beta (sup_{q: D(q, d) <= rho} E_q Q - E_data Q) + 1/2 E_w (Q - BQ)^2
    w = f data + (1 - f) d

d is the model's discounted distribution of states and actions under the policy, from the states of the data; B is the
model's Bellman operator, which on visited pairs is also the data's. A radius rho of 0 is COMBO. With B's Q held fixed,
as in any critic, the minimum is Q = BQ - beta (q - data) / w: a penalty on rewards, at which q is the distribution that
is the worst for Q itself. Exact for tables: every expectation is a sum over all pairs.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import xlogy

from ipsrl.bisection import bisected

HALVINGS = 80
"""The number of halvings of an interval of log-scales, after which it is as short as floats can be."""
SMALL = 1e-18
"""A power of gamma P that adds nothing to I."""


def worst(values: Array, probs: Array, radius: float | Array, ball: str = "kl") -> Array:
    """`[N]`, the distribution q with the largest mean of values `[N]` among those with D(q, probs) <= radius.

    kl: D = sum q log(q / d). q is proportional to d exp(Q / eta), and the mean is inf_eta eta log E_d exp(Q / eta) +
    eta rho. chi_square: D = 1/2 sum (q - d)^2 / d. q is proportional to d max(0, Q - c), and as long as no entry is 0
    the mean is E_d Q + sqrt(2 rho Var_d Q). Each has one unknown scale, found by bisection. A radius of 0, or values
    that are all equal where d > 0, give d itself; one beyond that of the best values gives d restricted to these.
    """
    possible = probs > 0
    values = jnp.where(possible, values, -jnp.inf)
    # How far below the best each value is, inf where d = 0.
    below = jnp.max(values) - values
    spread = jnp.max(jnp.where(possible, below, 0.0))

    def tilted(log_scale):
        scale = jnp.exp(log_scale) * jnp.where(spread > 0, spread, 1.0)
        far = below / scale
        weighted = probs * (jnp.exp(-far) if ball == "kl" else jnp.maximum(0.0, 1 - far))
        return weighted / weighted.sum()

    def distance(q):
        ratio = q / jnp.where(possible, probs, 1.0)
        each = xlogy(q, ratio) if ball == "kl" else probs * (ratio - 1) ** 2 / 2
        return each.sum()

    # A small scale is far from d, a large one near.
    ends = jnp.full_like(spread, -25.0), jnp.full_like(spread, 25.0)
    _, log_scale = bisected(lambda scale: distance(tilted(scale)) > radius, *ends, HALVINGS)
    return jnp.where((radius > 0) & (spread > 0), tilted(log_scale), probs)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Model:
    """A finite Markov decision process.

    Attributes:
      transitions: `[S, A, S]`, probabilities of next states; rows that sum to less end with what is missing.
      rewards: `[S, A]`.
    """

    transitions: Array
    rewards: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Pessimism:
    """The penalties on rewards and values, and the steps that improve the policy.

    Attributes:
      beta: weight of the penalty on values; 0 for none.
      radius: rho; 0 is COMBO.
      share: f, of the data in the distribution of Bellman errors.
      uncertainty: weight of a MOPO-like penalty on rewards (arXiv 2005.13239; counts in the place of an ensemble): it
        subtracts that over sqrt(1 + number of visits).
      discount: gamma.
      rate: of the policy, pi <- pi exp(rate Q) / normaliser.
      steps: of the policy.
      ball: the divergence.
    """

    beta: float = 0.0
    radius: float = 0.0
    share: float = 0.5
    uncertainty: float = 0.0
    discount: float = 0.95
    rate: float = 5.0
    # Critics that differ in other fields only share a program, because compiling takes longer than running.
    steps: int = dataclasses.field(default=300, metadata={"static": True})
    ball: Literal["kl", "chi_square"] = dataclasses.field(default="kl", metadata={"static": True})


def expected_visits(model: Model, policy: Array, discount: float | Array) -> Array:
    """`[S, S]`, discounted visits to each state (column) from each state: the inverse of I - gamma P.

    It is (I + gamma P) (I + (gamma P)^2) (I + (gamma P)^4) ... Not by `jnp.linalg.solve`: two of them for many seeds at
    once have stopped for ever on two CPU cores.
    """
    power = discount * jnp.einsum("sa,sat->st", policy, model.transitions)
    total = jnp.eye(len(policy), dtype=power.dtype) + power

    def double(carried):
        total, power = carried
        power = power @ power
        return total + total @ power, power

    return jax.lax.while_loop(lambda carried: carried[1].max() > SMALL, double, (total, power))[0]


def q_values(model: Model, policy: Array, discount: float | Array, visits: Array) -> Array:
    """`[S, A]`, the exact Q of a policy `[S, A]` with these `expected_visits`: r + gamma P V, V = sum_a pi Q."""
    value = visits @ (policy * model.rewards).sum(axis=1)
    return model.rewards + discount * model.transitions @ value


def visited(policy: Array, start: Array, visits: Array) -> Array:
    """`[S, A]`, the discounted distribution of states and actions from start `[S]`, which sums to 1."""
    pairs = (start @ visits)[:, None] * policy
    return pairs / pairs.sum()


@jax.jit
def improved(model: Model, counts: Array, critic: Pessimism) -> tuple[Array, Array]:
    """The policy `[S, A]` that is learned in a model, and its Q `[S, A]`, from data with numbers of visits `[S, A]`.

    From a uniform policy. Each step takes the worst distribution for the last Q, solves for Q, and improves the policy;
    where the steps come to rest Q solves the critic's equation.
    """
    data = counts / counts.sum()
    rewards = model.rewards - critic.uncertainty / jnp.sqrt(1 + counts)

    def penalised(policy, values):
        visits = expected_visits(model, policy, critic.discount)
        in_model = visited(policy, data.sum(axis=1), visits)
        lowered = worst(values.ravel(), in_model.ravel(), critic.radius, critic.ball)
        weights = critic.share * data + (1 - critic.share) * in_model
        beyond_data = lowered.reshape(values.shape) - data
        penalty = critic.beta * beyond_data / jnp.where(weights > 0, weights, 1.0)
        lower = Model(model.transitions, rewards - penalty)
        return q_values(lower, policy, critic.discount, visits)

    def step(carried, _):
        logits, values = carried
        values = penalised(jax.nn.softmax(logits, axis=1), values)
        return (logits + critic.rate * values, values), None

    start = jnp.zeros_like(rewards), rewards
    (logits, values), _ = jax.lax.scan(step, start, length=critic.steps)
    policy = jax.nn.softmax(logits, axis=1)
    return policy, penalised(policy, values)
