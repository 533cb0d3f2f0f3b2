"""Layers of models: each one answers a task or passes it on, and only the last one knows whether an answer is right.

There are L layers: n = L - 1 local models, then an oracle that never errs. A task has a difficulty d, hidden and
uniform on a grid in (0, 1). Local model l errs with probability 3 r_l d^2, where r_l is its mean error rate, and
reports a confidence, one of `LEVELS`, near 1 - d. Given d, errors and confidences of the layers are independent.
Passing on costs 1, and the budget of a layer bounds the mean cost that it causes for a task. The errors of a task are
revealed if it reaches the oracle: with the product of all pass-on probabilities.

Setting: arXiv 2603.04247; difficulties and confidences are ours.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

LEVELS = 9
"""Number of confidences."""
NOISE = 0.15
"""Standard deviation of a confidence around 1 - d, before it is cut to a level."""
DIFFICULTY = (np.arange(16) + 0.5) / 16
"""`[D]`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tasks:
    """Confidence and errors of all n local models on tasks, `[..., n]`, whether they are asked or not.

    Attributes:
      confidence: whole numbers from 0 to LEVELS - 1.
      errors: 1.0 where a local answer is wrong, else 0.0.
    """

    confidence: Array
    errors: Array


def _confidence_probs() -> np.ndarray:
    centres = (np.arange(LEVELS) + 0.5) / LEVELS
    weights = np.exp(-0.5 * ((centres - (1 - DIFFICULTY[:, None])) / NOISE) ** 2)
    return weights / weights.sum(axis=1, keepdims=True)


CONFIDENCE_PROBS = _confidence_probs()
"""`[D, LEVELS]`, of a confidence given the difficulty; the same for all layers."""


@dataclasses.dataclass(frozen=True)
class InferenceLayers:
    """The world of this module.

    Attributes:
      depth: L.
      error_rate: r_1; the rates fall evenly to the oracle's 0, as 0.3, 0.15, 0.
      budget: of the tasks that reach a layer, the share that it may pass on in the long run; of all tasks, layer l may
        pass on `budget`^l.
    """

    depth: int
    error_rate: float
    budget: float

    @property
    def num_local(self) -> int:
        """N = L - 1, the layers that decide."""
        return self.depth - 1

    @functools.cached_property
    def budgets(self) -> np.ndarray:
        """`[n]`."""
        return np.array([self.budget**layer for layer in range(1, self.depth)])

    @functools.cached_property
    def error_probs(self) -> np.ndarray:
        """`[D, n]`, 3 r_l d^2 over its mean, so that the mean over the grid is r_l."""
        square = DIFFICULTY**2
        ahead = np.arange(self.depth - 1, 0, -1)
        rates = self.error_rate * ahead / (self.depth - 1)
        return rates * (square / square.mean())[:, None]

    def tasks(self, key: Array, rounds: int) -> Tasks:
        """Independent tasks, `[rounds, n]`."""
        of_difficulty, of_confidence, of_error = jax.random.split(key, 3)
        difficulty = jax.random.randint(of_difficulty, (rounds,), 0, len(DIFFICULTY))
        shape = rounds, self.num_local
        below = jnp.asarray(CONFIDENCE_PROBS.cumsum(axis=1))[difficulty][:, None, :-1]
        confidence = (jax.random.uniform(of_confidence, shape)[..., None] >= below).sum(axis=-1)
        wrong = jax.random.uniform(of_error, shape) < jnp.asarray(self.error_probs)[difficulty]
        return Tasks(confidence, wrong.astype(below.dtype))

    def expected(self, pass_on: Array) -> tuple[Array, Array]:
        """The error rate, and the mean costs `[n]`, of passing on with probability `pass_on`, `[n, LEVELS]`. Exact."""
        passes = jnp.asarray(CONFIDENCE_PROBS) @ pass_on.T
        arrives = jnp.cumprod(jnp.insert(passes, 0, 1.0, axis=1), axis=1)
        errors = (arrives[:, :-1] * (1 - passes) * jnp.asarray(self.error_probs)).sum(axis=1).mean()
        return errors, arrives[:, 1:].mean(axis=0)
