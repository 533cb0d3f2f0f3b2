"""Online learners on the same tasks, with each rate, measured against the best fixed expert."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.inference_routing.best_baseline import removable
from experiments.inference_routing.best_fixed import best_fixed
from experiments.inference_routing.exp4 import IntervalMeans, Learner
from ipsrl.records.tidy import Records
from ipsrl.rollouts.randomness import stream
from ipsrl.study.curves import Points
from ipsrl.study.numbers import Computed, Number


@dataclasses.dataclass(frozen=True)
class Runs:
    """All runs of a learner: of each seed with each rate, and without a step, so that its experts keep equal weights.

    A seed decides tasks and decisions, the same for all rates.
    """

    learner: Learner
    rounds: int
    intervals: int
    seeds: tuple[int, ...]
    learning_rates: tuple[float, ...]

    @functools.cached_property
    def measured(self) -> dict[str, Array | np.ndarray]:
        """Each of `measures`, `[rate, seed, interval]`; the last rate is 0."""

        def of_run(rate, seed):
            key = stream(seed, 0, "reported")
            return self.learner.run(key, rate, self.rounds, self.intervals)

        def of_seeds(rate):
            return jax.vmap(of_run, (None, 0))(rate, jnp.asarray(self.seeds))

        rates = jnp.float32([*self.learning_rates, 0.0])
        courses = jax.jit(lambda: jax.lax.map(of_seeds, rates))()
        return measures(self.learner, jax.device_get(courses), self.rounds)

    def with_rate(self, number: int, whole_course: bool) -> Points:
        """`measures` with one of the rates, at the end or after each interval.

        `minus_regret` is what the best rate has most of.
        """
        first = 0 if whole_course else self.intervals - 1
        values = {name: value[number, :, first:] for name, value in self.measured.items()}
        values["minus_regret"] = -values["regret"]
        steps = np.arange(first + 1, self.intervals + 1) * (self.rounds // self.intervals)
        return Points(steps, values, self.seeds)

    def at_equal_weights(self) -> Points:
        """`measures` at the end without a step, as `uniform_` and their name, and `removable`."""
        values: dict[str, Any] = {
            f"uniform_{name}": value[-1, :, -1:] for name, value in self.measured.items()
        }
        values["removable"] = removable(self.learner.layers, self.learner.p_min)
        return Points([self.rounds], values, self.seeds)


def measures(of: Learner, course: IntervalMeans, rounds: int) -> dict[str, Array | np.ndarray]:
    """Measures `[..., U]` of courses with U intervals, up to the end of each one.

    errors: exact error rate, times the number of tasks, less the errors of the best fixed expert within the budgets.
    overspent: mean cost of a task less its budget, the largest over budgets.
    regret: errors, plus all costs above a budget, at one error for a unit, more than passing a task on can ever save.
    off: mean of the first layer's estimates less its errors.
    variance, choice_variance, revealed: those of `IntervalMeans`, of the last interval alone.
    """
    intervals = course.error.shape[-1]
    number = np.arange(1, intervals + 1)
    tasks = number * (rounds // intervals)
    error = np.cumsum(course.error, axis=-1, dtype=np.float64) / number
    errors = (error - best_fixed(of.layers, of.p_min)) * tasks
    costs = np.cumsum(course.costs, axis=-2, dtype=np.float64) / number[:, None]
    over = costs - of.layers.budgets
    beyond = np.maximum(over, 0).sum(axis=-1)
    return {
        "regret": errors + tasks * beyond,
        "errors": errors,
        "overspent": over.max(axis=-1),
        "off": np.cumsum(course.off, axis=-1, dtype=np.float64) / number,
        "variance": course.variance,
        "choice_variance": course.choice_variance,
        "revealed": course.revealed,
    }


def from_median(value: str, **labels: Any) -> Number:
    """The distance of a run's value at the end from the median over seeds."""

    def of_each_seed(records: Records) -> np.ndarray:
        ends = records.ends(value)
        return abs(ends - np.median(ends))

    return Computed(f"distance of {value} from its median", of_each_seed, labels)
