"""Layers of models: each one answers a task or passes it on, and only the last one knows whether an answer is right.

There are L layers: n = L - 1 local models, then an oracle that never errs. A task has a difficulty d, hidden and
uniform on a grid in (0, 1). Local model l errs with probability 3 r_l d^2, where r_l is its mean error rate, and
reports a confidence, one of `levels`, near 1 - d. Given d, errors and confidences of the layers are independent.
Passing on from layer l costs c_l. The errors of a task are revealed if it reaches the oracle: with the product of all
pass-on probabilities. Long-run budgets bound the mean cost of a task, for each layer or in all.

Setting: arXiv 2603.04247; difficulties and confidences are ours.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.arguments import checked
from ipsrl.fields import Checked, Range, between, in_range, positive

LARGEST_RATE = 1 / 3
"""Mean error rate of a model that errs on each of the hardest tasks."""
RATES = Range(
    "be mean error rates from 0 to 1/3 of at least one local model",
    lambda rates: len(rates) > 0 and all(0 <= rate <= LARGEST_RATE for rate in rates),
    of_whole=True,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tasks:
    """What all n local models would do, `[..., n]`.

    Attributes:
      confidence: whole numbers from 0 to levels - 1.
      errors: 1.0 where a local answer is wrong, else 0.0.
    """

    confidence: Array
    errors: Array


@dataclasses.dataclass(frozen=True)
class InferenceLayers(Checked):
    """The world of this module.

    Attributes:
      error_rates: n mean error rates r_l, of the local models from first to last.
      budgets: n long-run bounds on the mean cost that a layer causes for a task, or one bound on all costs together.
      costs: n costs c_l of passing on, by default 1 each.
      levels: number of confidences.
      noise: standard deviation of a confidence around 1 - d, before it is cut to a level.
      difficulties: number of difficulties.

    Raises:
      ValueError: a rate lies outside [0, 1/3], there is no local model, or the numbers of rates, costs and budgets do
        not fit.
    """

    error_rates: tuple[float, ...] = in_range(RATES)
    budgets: tuple[float, ...] = positive()
    costs: tuple[float, ...] = positive(())
    levels: int = between(2, 100, 9)
    noise: float = between(0.01, 100, 0.15)
    difficulties: int = between(1, 10_000, 16)

    def __post_init__(self):
        super().__post_init__()
        if self.costs and len(self.costs) != self.num_local:
            raise ValueError(
                f"costs is {self.costs}, it must have one for each of {self.num_local} local models"
            )
        if len(self.budgets) not in (1, self.num_local):
            raise ValueError(
                f"budgets is {self.budgets}, it must have one for each of {self.num_local} local models, or one in all"
            )

    @property
    def num_local(self) -> int:
        """N = L - 1, the layers that decide."""
        return len(self.error_rates)

    @functools.cached_property
    def cost_of_each(self) -> np.ndarray:
        """`[n]`, c_l."""
        return np.array(self.costs or (1.0,) * self.num_local)

    @functools.cached_property
    def paid_from(self) -> np.ndarray:
        """`[B, n]`, 1 where the costs of a layer count for one of the B budgets."""
        if len(self.budgets) == self.num_local:
            return np.eye(self.num_local)
        return np.ones((1, self.num_local))

    @functools.cached_property
    def difficulty(self) -> np.ndarray:
        """`[D]`."""
        return (np.arange(self.difficulties) + 0.5) / self.difficulties

    @functools.cached_property
    def confidence_probs(self) -> np.ndarray:
        """`[D, levels]`, of a confidence given the difficulty; the same for all layers."""
        centres = (np.arange(self.levels) + 0.5) / self.levels
        weights = np.exp(-0.5 * ((centres - (1 - self.difficulty[:, None])) / self.noise) ** 2)
        return weights / weights.sum(axis=1, keepdims=True)

    @functools.cached_property
    def error_probs(self) -> np.ndarray:
        """`[D, n]`, 3 r_l d^2 over its mean, so that the mean over the grid is r_l."""
        square = self.difficulty**2
        return np.minimum(1.0, np.array(self.error_rates) * (square / square.mean())[:, None])

    @checked
    def tasks(self, key: Array, rounds: int) -> Tasks:
        """Independent tasks, `[rounds, n]`.

        Raises:
          ValueError: there is no round.
        """
        if rounds < 1:
            raise ValueError(f"rounds is {rounds}, it must be positive")
        of_difficulty, of_confidence, of_error = jax.random.split(key, 3)
        difficulty = jax.random.randint(of_difficulty, (rounds,), 0, self.difficulties)
        shape = rounds, self.num_local
        below = jnp.asarray(self.confidence_probs.cumsum(axis=1))[difficulty][:, None, :-1]
        confidence = (jax.random.uniform(of_confidence, shape)[..., None] >= below).sum(axis=-1)
        wrong = jax.random.uniform(of_error, shape) < jnp.asarray(self.error_probs)[difficulty]
        return Tasks(confidence, wrong.astype(below.dtype))

    @checked
    def expected(self, pass_on: Array) -> tuple[Array, Array]:
        """The error rate, and the mean costs `[n]`, of passing on with probability `pass_on`, `[n, levels]`. Exact.

        Raises:
          ValueError: `pass_on` has another shape.
        """
        if pass_on.shape != (self.num_local, self.levels):
            raise ValueError(
                f"pass_on has the shape {pass_on.shape}, it must be {(self.num_local, self.levels)}"
            )
        passes = jnp.asarray(self.confidence_probs) @ pass_on.T
        arrives = jnp.concatenate(
            [jnp.ones_like(passes[:, :1]), jnp.cumprod(passes, axis=1)], axis=1
        )
        errors = (arrives[:, :-1] * (1 - passes) * jnp.asarray(self.error_probs)).sum(axis=1).mean()
        return errors, arrives[:, 1:].mean(axis=0) * jnp.asarray(self.cost_of_each)


@checked
def of_depth(depth: int, error_rate: float, budget: float) -> InferenceLayers:
    """L layers whose error rates fall evenly from `error_rate` to the oracle's 0, as 0.3, 0.15, 0; L from 2 to 7.

    The budget of layer l is `budget`^l: of the tasks that reach it, it may pass on a share `budget` in the long run.

    Raises:
      ValueError: the depth or a number is out of range.
    """
    if not 2 <= depth <= 7:
        raise ValueError(f"depth is {depth}, it must lie between 2 and 7")
    if not 0 < budget <= 1:
        raise ValueError(f"budget is {budget}, it must lie above 0 and not above 1")
    rates = tuple(error_rate * (depth - layer) / (depth - 1) for layer in range(1, depth))
    return InferenceLayers(rates, tuple(budget**layer for layer in range(1, depth)))
