"""The perturbed policy as a policy of an environment: its outcomes are paths, and objectives train its scores.

The sampled perturbed scores u = s + lambda Z are the action, of density N(s, lambda^2), and the path that the oracle
finds for them is the outcome. So every objective of groups applies: the gradient of log p(u) is Z / lambda, and that of
the expected return the one of `experiments.perturbed_policies.perturbed`.
"""

import functools
import itertools
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
RIGHT = (
    (0, 1, 2, 3, 7, 11, 15),
    (0, 4, 8, 12, 13, 14, 15),
    (0, 1, 5, 6, 10, 11, 15),
)
"""Nodes of the paths of reward 1: along both borders, and a staircase. No mixture of two of them is another path."""
GROUP = 32
MEASURED_BY = 4096
"""Samples of the last policy."""


def rewards() -> np.ndarray:
    """`[K]` float32, of all paths: 1 of the right ones, 0 of the others."""
    number = {tuple(edge): place for place, edge in enumerate(GRID.edges().tolist())}
    right = [{number[move] for move in itertools.pairwise(path)} for path in RIGHT]
    taken = [set(np.flatnonzero(path).tolist()) for path in GRID.paths()]
    return np.array([path in right for path in taken], np.float32)


def outcome(scores: Array) -> Array:
    """`[...]` int32, the number of the best path among `GRID.paths()`."""
    shared = GRID.solve(scores) @ GRID.paths().T.astype(np.float32)
    return shared.argmax(axis=-1).astype(jnp.int32)


@functools.partial(jax.jit, static_argnames=("text", "steps"))
def train(
    text: str,
    steps: int,
    seeds: Array,
    smoothing: float,
    rate: float,
    radius: float,
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

    def step(scores: Array, key: Array) -> tuple[Array, None]:
        noise = jax.random.normal(key, (GROUP, GRID.size))
        perturbed = scores + smoothing * noise
        found = outcome(perturbed)

        def log_density(scores: Array) -> Array:
            squares = ((perturbed - scores) ** 2).sum(axis=-1)
            return -squares[None, :, None] / (2 * smoothing**2)

        rollouts = Rollouts(
            prompt_index=jnp.zeros(1, jnp.int32),
            observations=jnp.zeros((1, GROUP, 1), jnp.int32),
            tokens=found[None, :, None],
            token_mask=jnp.ones((1, GROUP, 1), bool),
            behaviour_log_probs=log_density(scores),
            behaviour_entropy=jnp.zeros((1, GROUP, 1)),
            rewards=pays[found][None],
            outcome_id=found[None],
            truncated=jnp.zeros((1, GROUP), bool),
        )

        def loss(scores: Array) -> Array:
            of_policy = PolicyScores(log_density(scores), jnp.zeros((1, GROUP, 1)))
            output = objective(of_policy, rollouts)
            return output.loss_sum / output.count

        moved = scores - rate * jax.grad(loss)(scores)
        length = jnp.maximum(jnp.linalg.norm(moved), 1e-9)
        return moved * jnp.minimum(1, radius / length), None

    def run(seed: Array) -> Array:
        keys = jax.random.split(jax.random.key(seed), steps)
        return jax.lax.scan(step, jnp.zeros(GRID.size), keys)[0]

    return jax.vmap(run)(seeds)


def trained(
    text: str,
    seeds: Sequence[int],
    steps: int,
    smoothing: float,
    rate: float,
    radius: float,
) -> Points:
    """At the end of training, by `MEASURED_BY` samples of each policy.

    reward: the mean reward. effective: exp(H) of the shares of the right paths, 1 to 3; 0 if none was found. length:
    |s| / lambda, which grows where the policy undoes its perturbation.
    """
    scores = train(text, steps, jnp.asarray(seeds), smoothing, rate, radius)
    noise = smoothing * jax.random.normal(jax.random.key(0), (MEASURED_BY, GRID.size))
    found = np.asarray(jax.lax.map(lambda each: outcome(each + noise), scores))
    right = np.flatnonzero(rewards())
    probs = (found[:, :, None] == right).mean(axis=1)
    reward = probs.sum(axis=1)
    shares = probs / np.where(reward == 0, 1, reward)[:, None]
    effective = np.asarray(effective_outcomes_of_distribution(jnp.asarray(shares)))
    values = {
        "reward": reward,
        "effective": np.where(reward == 0, 0.0, effective),
        "length": np.linalg.norm(np.asarray(scores), axis=1) / smoothing,
    }
    return Points([steps], {name: value[:, None] for name, value in values.items()}, seeds)
