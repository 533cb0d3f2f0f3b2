"""Decisions learned with perturbed oracles: populations of paths and of vehicle schedules, whose risks are tables.

Scores are -(cos t, sin t) . x for two features x of each component, so that the policy is one angle t. Whoever learns
chooses the best of a list of angles, exactly: there is no optimisation error, and thousands of training sets cost no
more than their means. The population is the pool of instances that a seed draws, and training sets are drawn from it.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.perturbed_policies import vehicle_scheduling
from experiments.perturbed_policies.oracles import GridPath, Oracle
from experiments.perturbed_policies.perturbed import (
    crossing_probability,
    gradient_estimates,
    perturbed_costs,
    scores_of,
)
from ipsrl.measures.power_law import log_slopes
from ipsrl.study.curves import Curve, Points

Decided = Callable[[Array, Array], Array]
"""(scores `[D]`, costs of an instance) -> `[]`, the cost of the decision."""
PATHS, VEHICLES = "paths", "vehicles"
GRID, TASKS = GridPath(5, 5), 5
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


def path_cost(scores: Array, costs: Array) -> Array:
    return GRID.chosen(scores, costs)


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

    def of_schedules(*instance: Array) -> Array:
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
    return costs[vehicle_scheduling.schedules(TASKS).position(scores)]


WORLDS: dict[str, tuple[Callable, Decided, Oracle]] = {
    PATHS: (paths, path_cost, GRID),
    VEHICLES: (vehicles, schedule_cost, vehicle_scheduling.schedules(TASKS)),
}


@functools.partial(jax.jit, static_argnames=("decided", "number"))
def risks(
    decided: Decided, features: Array, costs: Array, noise: Array, smoothing: float, number: int
) -> Array:
    """`[N, A]`, the smoothed risk of each instance by each angle.

    Args:
      features, costs: of N instances.
      noise: `[N, M, D]`.
      number: A.
    """

    def of_instance(instance: tuple[Array, Array, Array]) -> Array:
        features, costs, noise = instance

        def cost(scores: Array) -> Array:
            return decided(scores, costs)

        def of_weights(weights: Array) -> Array:
            scores = scores_of(weights, features)
            return perturbed_costs(cost, scores, noise, smoothing).mean()

        return jax.vmap(of_weights)(jnp.asarray(directions(number)))

    return jax.lax.map(of_instance, (features, costs, noise), batch_size=AT_ONCE)


def predicted_weights(features: Array, costs: Array, counts: Array | None = None) -> Array:
    """`[F]`, predict then optimise: the least squares fit of costs on features, whatever is decided by it.

        argmin_w sum_nd counts_n (<x_nd, w> - c_nd)^2

    By the normal equations; of several minimisers the shortest. `scores_of` turns it into a policy.

    Args:
      features: `[N, D, F]`.
      costs: `[N, D]`, one for each component of each instance.
      counts: `[N]`, how often each instance stands in the training set; once by default.
    """
    counts = jnp.ones(len(features), features.dtype) if counts is None else counts
    of_instances = jnp.einsum("ndf,ndg->nfg", features, features)
    squares = jnp.einsum("n,nfg->fg", counts, of_instances)
    products = counts @ jnp.einsum("ndf,nd->nf", features, costs)
    return jnp.linalg.pinv(squares, hermitian=True) @ products


POWER_LAW = 0.1, 0.4
"""Smoothings between which exponents of lambda are fitted: below the scale of the scores, 1, above that of the pool."""
OF_GRADIENTS = 2048
"""Instances of which gradients are estimated."""


@functools.cache
def population(
    world: str,
    draws: int,
    seed: int,
    size: int,
    number: int,
    smoothings: tuple[float, ...],
    samples: tuple[int, ...],
    sets: int,
) -> dict[str, np.ndarray]:
    """What smoothing does in a pool of instances: in the pool itself, and to policies learned from samples of it.

    Risks are those of the pool. Excess is above the smallest unsmoothed one, that of the best angle; a mean over
    training sets, which are the same for each lambda.

    Args:
      draws: M, perturbations of each instance, whose mean is its smoothed risk.
      size: N, instances in the pool.
      number: A, angles of the class of policies.
      smoothings: L of them, the first one 0.
      samples: n, numbers of instances in training sets; B of them.
      sets: training sets for each n.

    Returns:
      bias, crossing, variance: `[L]`, at the best angle: its smoothed risk less its risk, the probability that the
        perturbation changes the solution, and the variance of single estimates of the gradient, a mean over components.
      excess, excess_perturbed: `[L, B]`, of learned policies that decide without and with their perturbation.
      predicted: `[B]`, excess of predict then optimise, by the angle of least squares.
      best, least: `[B]`, the lambda of the smallest `excess`, by `lowest`, and that excess.
    """
    draw, decided, oracle = WORLDS[world]
    of_pool, of_noise = jax.random.split(jax.random.key(seed))
    features, costs, targets = draw(of_pool, size)
    noise = jax.random.normal(of_noise, (size, draws, oracle.size))
    tables = []
    for smoothing in smoothings:
        # Without perturbation all draws are the same.
        needed = noise if smoothing else noise[:, :1]
        tables.append(np.asarray(risks(decided, features, costs, needed, smoothing, number)))
    pool = np.array([table.mean(axis=0, dtype=np.float64) for table in tables])
    best = pool[0].argmin()
    least, weights = pool[0, best], directions(number)[best]
    some = [each[:OF_GRADIENTS] for each in (features, costs, noise)]
    at_best = [
        at_weights(decided, oracle, weights, *some, smoothing) for smoothing in smoothings[1:]
    ]
    crossing, variance = np.array(at_best, np.float64).T

    rng, axis = np.random.default_rng(seed), angles(number)
    fit = jax.jit(jax.vmap(functools.partial(predicted_weights, features, targets)))
    excess = np.zeros((len(tables), len(samples)))
    perturbed, predicted = excess.copy(), []
    for place, sample in enumerate(samples):
        drawn = rng.multinomial(sample, np.full(size, 1 / size), size=sets).astype(np.float32)
        for level, table in enumerate(tables):
            chosen = (drawn @ table).argmin(axis=1)
            excess[level, place] = pool[0, chosen].mean() - least
            perturbed[level, place] = pool[level, chosen].mean() - least
        x, y = np.asarray(fit(drawn)).T
        of_angle = np.interp(np.arctan2(y, x), axis, pool[0])
        predicted.append(of_angle.mean() - least)
    positive = np.array(smoothings[1:])
    lows = np.array([lowest(positive, of_sample) for of_sample in excess[1:].T])
    return {
        "bias": pool[:, best] - least,
        "crossing": np.array([0.0, *crossing]),
        "variance": np.array([np.nan, *variance]),
        "excess": excess,
        "excess_perturbed": perturbed,
        "predicted": np.array(predicted),
        "best": lows[:, 0],
        "least": lows[:, 1],
    }


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

    def of_instance(features: Array, costs: Array, noise: Array) -> tuple[Array, Array]:
        scores = scores_of(weights, features)
        found = perturbed_costs(lambda each: decided(each, costs), scores, noise, smoothing)
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


@dataclasses.dataclass(frozen=True)
class Pools:
    """The populations of several seeds, computed when the first of the curves below asks for them.

    Attributes are those of `population`.
    """

    world: str
    draws: int
    seeds: tuple[int, ...]
    size: int
    number: int
    smoothings: tuple[float, ...]
    samples: tuple[int, ...]
    sets: int

    def measured(self) -> dict[str, np.ndarray]:
        """`population` of each seed, with the axis of seeds first."""
        shape = self.size, self.number, self.smoothings, self.samples, self.sets
        found = [population(self.world, self.draws, seed, *shape) for seed in self.seeds]
        return {name: np.stack([each[name] for each in found]) for name in found[0]}

    def curves(self, draws: str) -> Iterator[Curve]:
        """A curve for each lambda, each lambda and n, and each n, and one of the exponents.

        Args:
          draws: what the number of draws is called.
        """
        labels = {"world": self.world, "draws": draws}
        for level, smoothing in enumerate(self.smoothings):
            of_level = labels | {"smoothing": smoothing}
            if level:
                in_pool = functools.partial(self.in_pool, level)
                yield Curve(of_level | {"kind": "in the pool"}, in_pool)
            for place, sample in enumerate(self.samples):
                learned = functools.partial(self.learned, level, place)
                yield Curve(of_level | {"kind": "learned", "n": sample}, learned)
        for place, sample in enumerate(self.samples):
            from_samples = functools.partial(self.from_samples, place)
            yield Curve(labels | {"kind": "of n", "n": sample}, from_samples)
        yield Curve(labels | {"kind": "exponents"}, self.exponents)

    def in_pool(self, level: int) -> Points:
        """Bias, crossing and variance of one lambda."""
        found = self.measured()
        names = ("bias", "crossing", "variance")
        return self._points({name: found[name][:, level] for name in names})

    def learned(self, level: int, place: int) -> Points:
        """Excess by one lambda from samples of one size."""
        found = self.measured()
        names = ("excess", "excess_perturbed")
        return self._points({name: found[name][:, level, place] for name in names})

    def from_samples(self, place: int) -> Points:
        """Of samples of one size: the best lambda and its excess, what smoothing gains, and predict then optimise.

        gain: the share of the unsmoothed excess that the best lambda saves. gain_perturbed: the same of policies that
        decide with their perturbation, by the best positive lambda of the list. Negative where each makes it worse,
        NaN where the unsmoothed excess is 0.
        """
        found = self.measured()
        without, least = found["excess"][:, 0, place], found["least"][:, place]
        predicted = found["predicted"][:, place]
        perturbed = found["excess_perturbed"][:, 1:, place].min(axis=1)
        divisor = np.where(without > 0, without, np.nan)
        return self._points(
            {
                "best_lambda": found["best"][:, place],
                "least_excess": least,
                "gain": 1 - least / divisor,
                "gain_perturbed": 1 - perturbed / divisor,
                "predicted_excess": predicted,
                "more_than_predicted": least - predicted,
            }
        )

    def exponents(self) -> Points:
        """Slopes in log-log: of crossing, bias and variance over lambda, of the best lambda and its excess over n."""
        found, smoothings = self.measured(), np.array(self.smoothings)
        fitted = (smoothings >= POWER_LAW[0]) & (smoothings <= POWER_LAW[1])
        slopes = {
            f"{name} over lambda": log_slopes(smoothings[fitted], found[name][:, fitted])
            for name in ("crossing", "bias", "variance")
        }
        slopes["best lambda over n"] = log_slopes(self.samples, found["best"])
        slopes["excess over n"] = log_slopes(self.samples, found["least"])
        return self._points(slopes)

    def _points(self, values: dict[str, np.ndarray]) -> Points:
        of_seeds = {name: value[:, None] for name, value in values.items()}
        return Points([0], of_seeds, self.seeds)
