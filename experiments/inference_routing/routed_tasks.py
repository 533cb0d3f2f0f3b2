"""Online learners on the same tasks: tuned on some, measured on others, against the best fixed expert."""

import functools
from collections.abc import Sequence
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


def points(
    of: Learner,
    rounds: int,
    intervals: int,
    seeds: Sequence[int],
    tuning_seeds: Sequence[int],
    learning_rates: Sequence[float],
) -> Points:
    """`measures` of a learner at the rate with the lowest mean regret on tasks of their own, the smallest of equals.

    `uniform_` precedes those of the learner that takes no step. A seed decides tasks and decisions, those of tuning by
    another stream. `removable` is that of `experiments.inference_routing.best_baseline`.

    Args:
      seeds, tuning_seeds: of the runs that are reported, and of those that choose among `learning_rates`.
    """
    run = jax.jit(jax.vmap(functools.partial(of.run, rounds=rounds, intervals=intervals)))
    block = 2 * len(seeds)

    def found(name: str, seeds: Sequence[int], rates: Sequence[float]) -> dict[str, np.ndarray]:
        """Each `[rate, seed, interval]`."""
        rate = np.repeat(rates, len(seeds))
        seed = np.tile(seeds, len(rates))
        courses = []
        # As many runs at a time, because a program of another size is compiled anew.
        for first in range(0, len(seed), block):
            runs = np.arange(first, first + block) % len(seed)
            keys = jax.vmap(lambda seed: stream(seed, 0, name))(jnp.asarray(seed[runs]))
            courses.append(jax.device_get(run(keys, jnp.asarray(rate[runs], jnp.float32))))
        course = jax.tree.map(lambda *parts: np.concatenate(parts)[: len(seed)], *courses)
        shape = (len(rates), len(seeds), intervals)
        measured = measures(of, course, rounds).items()
        return {name: value.reshape(shape) for name, value in measured}

    at_end = found("tuning", tuning_seeds, learning_rates)["regret"][..., -1].mean(axis=1)
    best = learning_rates[int(np.argmin(np.round(at_end, 6)))]
    reported = found("reported", seeds, (best, 0.0))
    values = {name: value[0] for name, value in reported.items()}
    values |= {f"uniform_{name}": value[1] for name, value in reported.items()}
    values |= {"learning_rate": best, "removable": removable(of)}
    return Points(np.arange(1, intervals + 1) * (rounds // intervals), values, seeds)


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
