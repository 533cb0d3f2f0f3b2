"""Decisions learned with perturbed oracles: populations of paths and of vehicle schedules, whose risks are tables.

Scores are -(cos t, sin t) . x for two features x of each component, so that the policy is one angle t. Whoever learns
chooses the best of a list of angles, exactly: there is no optimisation error, and thousands of training sets cost no
more than their means. The population is the pool of instances that a seed draws, and training sets are drawn from it.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.perturbed_policies import vehicle_scheduling
from experiments.perturbed_policies.oracles import GridPath, Oracle
from experiments.perturbed_policies.perturbed import (
    Decided,
    crossing_probability,
    gradient_estimates,
    perturbed_costs,
    scores_of,
)
from ipsrl.measures.power_law import log_slopes
from ipsrl.study.curves import Curve, Curves, Points

PATHS, VEHICLES = "paths", "vehicles"
GRID = GridPath(5, 5)
TASKS = 5
SCHEDULES = vehicle_scheduling.schedules(TASKS)
SCENARIOS = 8
VEHICLE_COST = 15.0
DELAY_COST = 2.0
MEAN = 3.0
"""The time that a task takes, and its mean delay."""
AT_ONCE = 256


def angles(number: int) -> np.ndarray:
    """`[A]`, from 0 to pi / 2: both features raise predicted costs."""
    return np.linspace(0, np.pi / 2, number)


def directions(number: int) -> np.ndarray:
    """`[A, 2]` float32 weights of length 1."""
    angle = angles(number)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def paths(key: Array, size: int) -> tuple[Array, Array, Array]:
    """Features `[N, D, 2]`, costs `[N, D]` and targets of prediction `[N, D]` (the costs) of shortest paths.

    An edge costs exp(u) + 0.7 v with standard normal features u and v, which is not linear in u. Dear edges determine
    a regression, cheap ones, where u matters less, the path.
    """
    features = jax.random.normal(key, (size, GRID.size, 2))
    costs = jnp.exp(features[..., 0]) + 0.7 * features[..., 1]
    return features, costs, costs


def vehicles(key: Array, size: int) -> tuple[Array, Array, Array]:
    """Features `[N, D, 2]`, costs of all schedules `[N, K]` and targets of prediction `[N, D]`, of `TASKS` tasks.

    Tasks have uniform places in a square of side 10 and starts in a time of 30, and take `MEAN`; a vehicle travels at
    speed 1, and a task is delayed by an exponential time of the same mean, in one of `SCENARIOS`. Features of an arc
    are its travel and m log(1 + exp(-slack / m)) with m = `MEAN`, those of an arc from the depot the cost of a vehicle
    and 0. The target is the cost of an arc by itself, in which no delay is passed on.
    """
    of_places, of_starts, of_delays = jax.random.split(key, 3)
    place = jax.random.uniform(of_places, (size, TASKS, 2), maxval=10.0)
    start = jnp.sort(jax.random.uniform(of_starts, (size, TASKS), maxval=30.0), axis=1)
    delays = MEAN * jax.random.exponential(of_delays, (size, SCENARIOS, TASKS))
    travel = jnp.linalg.norm(place[:, :, None] - place[:, None], axis=-1)
    slack = start[:, None, :] - start[:, :, None] - MEAN - travel
    before = vehicle_scheduling.predecessors(TASKS)

    def of_schedules(*instance):
        return vehicle_scheduling.schedule_costs(*instance, VEHICLE_COST, DELAY_COST, before)

    costs = jax.vmap(of_schedules)(slack, delays, travel)
    i, j = vehicle_scheduling.arcs(TASKS).T
    leaves = i == vehicle_scheduling.DEPOT
    of_arc = slack[:, i, j]
    tight = jnp.where(leaves, 0.0, MEAN * jax.nn.softplus(-of_arc / MEAN))
    length = jnp.where(leaves, VEHICLE_COST, travel[:, i, j])
    late = jnp.maximum(delays[:, :, i] - of_arc[:, None], 0.0).mean(axis=1)
    target = length + DELAY_COST * jnp.where(leaves, 0.0, late)
    return jnp.stack([length, tight], axis=-1), costs, target


def schedule_cost(scores: Array, costs: Array) -> Array:
    return costs[SCHEDULES.position(scores)]


WORLDS: dict[str, tuple[Callable, Decided, Oracle]] = {
    PATHS: (paths, GRID.chosen, GRID),
    VEHICLES: (vehicles, schedule_cost, SCHEDULES),
}


@functools.partial(jax.jit, static_argnames=("decided", "number"))
def risks(
    decided: Decided, features: Array, costs: Array, noise: Array, smoothing: float, number: int
) -> Array:
    """`[N, A]`, the smoothed risk of each instance by each of A = `number` angles, by draws `[N, M, D]`."""

    def of_instance(instance):
        features, *costs_and_noise = instance

        def of_weights(weights):
            scores = scores_of(weights, features)
            return perturbed_costs(decided, scores, *costs_and_noise, smoothing).mean()

        return jax.vmap(of_weights)(jnp.asarray(directions(number)))

    return jax.lax.map(of_instance, (features, costs, noise), batch_size=AT_ONCE)


def predicted_weights(features: Array, targets: Array, counts: Array) -> Array:
    """`[F]`, predict then optimise: the least squares fit of targets on features, whatever is decided by it.

        argmin_w sum_nd counts_n (<x_nd, w> - c_nd)^2

    By the normal equations. `scores_of` turns it into a policy.

    Args:
      features: `[N, D, F]`.
      targets: `[N, D]`, one for each component of each instance.
      counts: `[N]`, how often each instance stands in the training set.
    """
    of_instances = jnp.einsum("ndf,ndg->nfg", features, features)
    squares = jnp.einsum("n,nfg->fg", counts, of_instances)
    products = counts @ jnp.einsum("ndf,nd->nf", features, targets)
    return jnp.linalg.pinv(squares, hermitian=True) @ products


POWER_LAW = 0.1, 0.4
"""Smoothings between which exponents of lambda are fitted: below the scale of the scores, 1, above that of the pool."""
OF_GRADIENTS = 2048
"""Instances of which gradients are estimated."""


@functools.partial(jax.jit, static_argnames=("decided", "oracle"))
def at_weights(
    decided: Decided,
    oracle: Oracle,
    weights: Array,
    features: Array,
    costs: Array,
    noise: Array,
    smoothing: float,
) -> tuple[Array, Array]:
    """The probability that the solution changes, and the variance of single estimates of a gradient's component."""

    def of_instance(features, costs, noise):
        scores = scores_of(weights, features)
        found = perturbed_costs(decided, scores, costs, noise, smoothing)
        crossing = crossing_probability(oracle, scores, noise, smoothing)
        return crossing, gradient_estimates(found, noise, smoothing)

    crossing, estimates = jax.vmap(of_instance)(features, costs, noise)
    return crossing.mean(), estimates.var(axis=(0, 1)).mean()


def lowest(smoothings: np.ndarray, excess: np.ndarray) -> tuple[float, float]:
    """The lambda and the value of the minimum of a parabola in log lambda through the log of the excess.

    It is fitted where the excess is at most twice the smallest one. Without three such points, without a minimum
    between the first and the last of them, or where an excess is 0, the smallest point is the minimum.
    """
    near = excess <= 2 * excess.min()
    if near.sum() >= 3 and excess.min() > 0:
        at, of = np.log(smoothings[near]), np.log(excess[near])
        square, slope, constant = np.polyfit(at, of, 2)
        place = -slope / (2 * square)
        if square > 0 and at[0] < place < at[-1]:
            value = constant - slope**2 / (4 * square)
            return float(np.exp(place)), float(np.exp(value))
    return float(smoothings[excess.argmin()]), float(excess.min())


IN_POOL = ("bias", "crossing", "variance")
LEARNED = ("excess", "excess_perturbed")
OF_N = (
    "best_lambda",
    "least_excess",
    "gain",
    "gain_perturbed",
    "predicted_excess",
    "more_than_predicted",
)
SLOPES = (
    "crossing over lambda",
    "bias over lambda",
    "variance over lambda",
    "best lambda over n",
    "excess over n",
)


@dataclasses.dataclass(frozen=True)
class Pools:
    """Pools of instances, one for each seed: what smoothing does in a pool, and to policies learned from samples of it.

    Attributes:
      draws: M, perturbations of each instance, whose mean is its smoothed risk.
      size: N, instances in a pool.
      number: A, angles of the class of policies.
      smoothings: L of them, the first one 0.
      samples: n, numbers of instances in training sets; B of them.
      sets: training sets for each n, the same ones for each lambda.
    """

    world: str
    draws: int
    seeds: tuple[int, ...]
    size: int
    number: int
    smoothings: tuple[float, ...]
    samples: tuple[int, ...]
    sets: int

    def population(self, seed: int) -> dict[str, np.ndarray]:
        """Measures of one pool, by name. Risks are those of the pool, and excess is above that of its best angle.

        bias, crossing, variance: `[L - 1]`, of each positive lambda at the best angle: its smoothed risk less its risk,
          the probability that the perturbation changes the solution, and the variance of single estimates of the
          gradient, a mean over components.
        excess, excess_perturbed: `[L, B]`, of learned policies that decide without and with their perturbation.
        best_lambda, least_excess: `[B]`, the lambda of the smallest `excess`, by `lowest`, and that excess.
        gain: `[B]`, the share of the unsmoothed excess that the best lambda saves. gain_perturbed: the same of policies
          that decide with their perturbation, by the best positive lambda of the list. Negative where each makes it
          worse, NaN where the unsmoothed excess is 0.
        predicted_excess, more_than_predicted: `[B]`, of predict then optimise, by the angle of least squares, and how
          far the least excess lies above.
        """
        draw, decided, oracle = WORLDS[self.world]
        of_pool, of_noise = jax.random.split(jax.random.key(seed))
        features, costs, targets = draw(of_pool, self.size)
        noise = jax.random.normal(of_noise, (self.size, self.draws, oracle.size))
        tables = []
        for smoothing in self.smoothings:
            # Without perturbation all draws are the same.
            needed = noise if smoothing else noise[:, :1]
            table = risks(decided, features, costs, needed, smoothing, self.number)
            tables.append(np.asarray(table))
        pool = np.array([table.mean(axis=0, dtype=np.float64) for table in tables])
        best = pool[0].argmin()
        least, weights = pool[0, best], directions(self.number)[best]
        some = [each[:OF_GRADIENTS] for each in (features, costs, noise)]
        positive = np.array(self.smoothings[1:])
        at_best = [
            at_weights(decided, oracle, weights, *some, smoothing)
            for smoothing in positive.tolist()
        ]
        crossing, variance = np.array(at_best, np.float64).T

        rng, axis = np.random.default_rng(seed), angles(self.number)
        fit = jax.jit(jax.vmap(functools.partial(predicted_weights, features, targets)))
        excess = np.zeros((len(tables), len(self.samples)))
        perturbed, predicted = excess.copy(), np.zeros(len(self.samples))
        for place, sample in enumerate(self.samples):
            chances = np.full(self.size, 1 / self.size)
            drawn = rng.multinomial(sample, chances, size=self.sets).astype(np.float32)
            for level, table in enumerate(tables):
                chosen = (drawn @ table).argmin(axis=1)
                excess[level, place] = pool[0, chosen].mean() - least
                perturbed[level, place] = pool[level, chosen].mean() - least
            x, y = np.asarray(fit(drawn)).T
            predicted[place] = np.interp(np.arctan2(y, x), axis, pool[0]).mean() - least
        best_lambda, least_excess = np.transpose([lowest(positive, of_n) for of_n in excess[1:].T])
        unsmoothed = np.where(excess[0] > 0, excess[0], np.nan)
        return {
            "bias": pool[1:, best] - least,
            "crossing": crossing,
            "variance": variance,
            "excess": excess,
            "excess_perturbed": perturbed,
            "best_lambda": best_lambda,
            "least_excess": least_excess,
            "gain": 1 - least_excess / unsmoothed,
            "gain_perturbed": 1 - perturbed[1:].min(axis=0) / unsmoothed,
            "predicted_excess": predicted,
            "more_than_predicted": least_excess - predicted,
        }

    @functools.cached_property
    def measured(self) -> dict[str, np.ndarray]:
        """`population` of all seeds, whose axis comes first, and `SLOPES` in log-log of each seed."""
        pools = [self.population(seed) for seed in self.seeds]
        found = {name: np.stack([pool[name] for pool in pools]) for name in pools[0]}
        smoothings = np.array(self.smoothings[1:])
        fitted = (smoothings >= POWER_LAW[0]) & (smoothings <= POWER_LAW[1])
        for name in IN_POOL:
            slopes = log_slopes(smoothings[fitted], found[name][:, fitted])
            found[f"{name} over lambda"] = slopes
        found["best lambda over n"] = log_slopes(self.samples, found["best_lambda"])
        found["excess over n"] = log_slopes(self.samples, found["least_excess"])
        return found

    def curves(self, draws: str) -> Curves:
        """A curve for each lambda, each lambda and n, and each n, and one of the exponents.

        Args:
          draws: what the number of draws is called.
        """
        labels = {"world": self.world, "draws": draws}
        for level, smoothing in enumerate(self.smoothings):
            of_level = labels | {"smoothing": smoothing}
            if level:
                yield self.curve(of_level | {"kind": "in the pool"}, IN_POOL, level - 1)
            for place, sample in enumerate(self.samples):
                yield self.curve(of_level | {"kind": "learned", "n": sample}, LEARNED, level, place)
        for place, sample in enumerate(self.samples):
            yield self.curve(labels | {"kind": "of n", "n": sample}, OF_N, place)
        yield self.curve(labels | {"kind": "exponents"}, SLOPES)

    def curve(self, labels: dict[str, str | float], names: tuple[str, ...], *place: int) -> Curve:
        """The measures of these names at one place of their axes behind that of seeds."""

        def points() -> Points:
            values = {name: self.measured[name][:, *place, None] for name in names}
            return Points([0], values, self.seeds)

        return Curve(labels, points)
