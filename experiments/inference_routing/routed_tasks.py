"""Online learners on the same tasks, with each rate, measured against the best fixed expert."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.inference_routing.best_baseline import removable
from experiments.inference_routing.best_fixed import best_fixed
from experiments.inference_routing.estimators import Estimator
from experiments.inference_routing.exp4 import IntervalMeans, Learner
from experiments.inference_routing.inference_layers import InferenceLayers
from ipsrl.records.tidy import Records
from ipsrl.rollouts.randomness import stream
from ipsrl.study.curves import Points
from ipsrl.study.numbers import Computed, Number

ARMS = ("plain", "constant", "learned", "weighted", "clipped", "full", "no_queues")


def learner(
    arm: str,
    layers: InferenceLayers,
    constant: float,
    least: float,
    p_min: float,
    trade_off: float,
) -> Learner:
    """The learner of one of `ARMS`.

    learned, weighted: baselines are the mean, and the mean weighted by 1 / p, of the losses observed so far for a layer
      and confidence. no_queues: as learned, but budgets have no price.

    Args:
      constant: the baseline of constant.
      least: the smallest probability by which clipped divides.
      p_min, trade_off: of the learner.
    """
    of_errors = {
        "constant": Estimator(constant=constant),
        "learned": Estimator("mean"),
        "no_queues": Estimator("mean"),
        "weighted": Estimator("weighted mean"),
        "clipped": Estimator(least=least),
    }
    return Learner(
        layers,
        of_errors.get(arm, Estimator()),
        full_information=arm == "full",
        queues=arm != "no_queues",
        p_min=p_min,
        trade_off=trade_off,
    )


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
    def measured(self) -> dict[str, np.ndarray]:
        """Each of `measures`, `[rate, seed, interval]`; the last rate is 0."""
        rates = (*self.learning_rates, 0.0)
        rate, seed = np.repeat(rates, len(self.seeds)), np.tile(self.seeds, len(rates))
        of_run = functools.partial(self.learner.run, rounds=self.rounds, intervals=self.intervals)
        run = jax.jit(jax.vmap(of_run))
        block = 2 * len(self.seeds)
        courses = []
        # As many runs at a time, because a program of another size is compiled anew.
        for first in range(0, len(seed), block):
            runs = np.arange(first, first + block) % len(seed)
            keys = jax.vmap(lambda seed: stream(seed, 0, "reported"))(jnp.asarray(seed[runs]))
            courses.append(jax.device_get(run(keys, jnp.asarray(rate[runs], jnp.float32))))
        course = jax.tree.map(lambda *parts: np.concatenate(parts)[: len(seed)], *courses)
        shape = (len(rates), len(self.seeds), self.intervals)
        found = measures(self.learner, course, self.rounds)
        return {name: value.reshape(shape) for name, value in found.items()}

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
        """`measures` at the end without a step, as `uniform_` and their name.

        `removable` is that of `experiments.inference_routing.best_baseline`.
        """
        values = {f"uniform_{name}": value[-1, :, -1:] for name, value in self.measured.items()}
        values["removable"] = removable(self.learner)
        return Points([self.rounds], values, self.seeds)


def measures(of: Learner, course: IntervalMeans, rounds: int) -> dict[str, np.ndarray]:
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
    errors = (error - _best_of(of.layers, of.thresholds, of.p_min)) * tasks
    costs = np.cumsum(course.costs, axis=-2, dtype=np.float64) / number[:, None]
    over = costs @ of.layers.paid_from.T - np.array(of.layers.budgets)
    return {
        "regret": errors + tasks * np.maximum(over, 0).sum(axis=-1),
        "errors": errors,
        "overspent": over.max(axis=-1),
        "off": np.cumsum(course.off, axis=-1, dtype=np.float64) / number,
        "variance": np.asarray(course.variance, np.float64),
        "choice_variance": np.asarray(course.choice_variance, np.float64),
        "revealed": np.asarray(course.revealed, np.float64),
    }


@functools.cache
def _best_of(layers: InferenceLayers, thresholds: tuple[int, ...], p_min: float) -> float:
    return best_fixed(Learner(layers, thresholds=thresholds, p_min=p_min))


def from_median(value: str, **labels: Any) -> Number:
    """The distance of a run's value at the end from the median over seeds."""

    def of_each_seed(records: Records) -> np.ndarray:
        ends = records.ends(value)
        return abs(ends - np.median(ends))

    return Computed(f"distance of {value} from its median", of_each_seed, labels)
