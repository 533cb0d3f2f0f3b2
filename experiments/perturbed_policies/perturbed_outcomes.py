"""The perturbed policy as a policy of an environment: its outcomes are paths, and objectives train its scores.

The sampled perturbed scores u = s + lambda Z are the action, of density N(s, lambda^2), and the path that the oracle
finds for them is the outcome. So every objective of groups applies: the gradient of log p(u) is Z / lambda, and that of
the expected return the one of `experiments.perturbed_policies.perturbed`.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.perturbed_policies.oracles import GridPath
from ipsrl import objectives
from ipsrl.measures.diversity import effective_outcomes_of_distribution
from ipsrl.structures import PolicyScores, Rollouts
from ipsrl.study.curves import Points

GRID = GridPath(4, 4)
RIGHT = ((3, 3, 3), (0, 0, 0), (1, 2, 3))
"""`descents` of the paths of reward 1: along both borders, and a staircase. No mixture of two is another path."""
SMOOTHING = 1.0
"""lambda."""
GROUP = 32
MEASURED_BY = 4096
"""Samples of the last policy."""


def rewards() -> np.ndarray:
    """`[K]` float32, of all paths: 1 of the right ones, 0 of the others."""
    return np.array([path in RIGHT for path in GRID.descents()], np.float32)


def outcome(scores: Array) -> Array:
    """`[...]` int32, the number of the best path among `GRID.paths()`."""
    shared = GRID.solve(scores) @ GRID.paths().T.astype(np.float32)
    return shared.argmax(axis=-1).astype(jnp.int32)


@functools.partial(jax.jit, static_argnames=("text", "steps"))
def train(
    text: str, steps: int, seeds: Array, smoothing: float, rate: float, radius: float
) -> Array:
    """`[S, D]`, the scores after stochastic gradient ascent from zero.

    Args:
      text: of the objective.
      seeds: `[S]`.
      smoothing: lambda.
      rate: the learning rate.
      radius: of the ball onto which scores are projected after each step; infinite for free scores.
    """
    objective, pays = objectives.make(text), jnp.asarray(rewards())

    def step(scores, key):
        noise = jax.random.normal(key, (GROUP, GRID.size))
        perturbed = scores + smoothing * noise
        found = outcome(perturbed)

        def log_density(scores):
            squares = ((perturbed - scores) ** 2).sum(axis=-1)
            return -squares[None, :, None] / (2 * smoothing**2)

        rollouts = Rollouts.of_actions(
            found[None], pays[found][None], behaviour_log_probs=log_density(scores)
        )

        def loss(scores):
            of_policy = PolicyScores(log_density(scores), jnp.zeros((1, GROUP, 1)))
            output = objective(of_policy, rollouts)
            return output.loss_sum / output.count

        moved = scores - rate * jax.grad(loss)(scores)
        length = jnp.maximum(jnp.linalg.norm(moved), 1e-9)
        return moved * jnp.minimum(1, radius / length), None

    def run(seed):
        keys = jax.random.split(jax.random.key(seed), steps)
        return jax.lax.scan(step, jnp.zeros(GRID.size), keys)[0]

    return jax.vmap(run)(seeds)


def trained(text: str, seeds: Sequence[int], steps: int, rate: float, radius: float) -> Points:
    """Trains; measures each policy at the end by `MEASURED_BY` samples.

    reward: the mean reward. effective: exp(H) of the shares of the right paths, 1 to 3. length: |s| / lambda, which
    grows where the policy undoes its perturbation.
    """
    scores = train(text, steps, jnp.asarray(seeds), SMOOTHING, rate, radius)
    noise = SMOOTHING * jax.random.normal(jax.random.key(0), (MEASURED_BY, GRID.size))
    found = np.asarray(jax.lax.map(lambda each: outcome(each + noise), scores))
    probs = (found[:, :, None] == np.flatnonzero(rewards())).mean(axis=1)
    reward = probs.sum(axis=1, keepdims=True)
    effective = effective_outcomes_of_distribution(jnp.asarray(probs / reward))
    length = np.linalg.norm(np.asarray(scores), axis=1) / SMOOTHING
    values = {
        "reward": reward,
        "effective": np.asarray(effective)[:, None],
        "length": length[:, None],
    }
    return Points([steps], values, seeds)
