import jax
import numpy as np
import pytest

from experiments.perturbed_policies import vehicle_scheduling
from experiments.perturbed_policies.perturbed import scores_of
from experiments.perturbed_policies.perturbed_paths import (
    GRID,
    PATHS,
    SCHEDULES,
    TASKS,
    VEHICLES,
    WORLDS,
    Pools,
    directions,
    lowest,
    risks,
)
from tests.experiments.perturbed_policies.known import best_schedule

SIZE, NUMBER, SMOOTHINGS, SAMPLES = 64, 9, (0.0, 0.1, 0.2, 0.4), (20, 40)


def pools(world):
    return Pools(world, 4, (0, 1), SIZE, NUMBER, SMOOTHINGS, SAMPLES, 20)


def test_risks_of_paths_are_lengths_of_the_best_ones():
    features, costs, _ = WORLDS[PATHS][0](jax.random.key(0), 5)
    noise = jax.random.normal(jax.random.key(1), (5, 3, GRID.size))
    found = np.asarray(risks(WORLDS[PATHS][1], features, costs, noise, 0.3, NUMBER))
    listed = GRID.paths().astype(np.float32)
    for place, weights in enumerate(directions(NUMBER)):
        perturbed = np.asarray(scores_of(weights, features))[:, None] + 0.3 * np.asarray(noise)
        best = (perturbed @ listed.T).argmax(axis=-1)
        lengths = np.take_along_axis(np.asarray(costs @ listed.T), best, axis=1)
        assert found[:, place] == pytest.approx(lengths.mean(axis=1), rel=1e-4)


def test_risks_of_vehicles_are_costs_of_the_best_assignment():
    features, costs, _ = WORLDS[VEHICLES][0](jax.random.key(0), 20)
    noise = jax.random.normal(jax.random.key(1), (20, 1, SCHEDULES.size))
    found = np.asarray(risks(WORLDS[VEHICLES][1], features, costs, noise, 0.0, NUMBER))
    solutions = SCHEDULES.solutions
    for place, weights in enumerate(directions(NUMBER)):
        scores = np.asarray(scores_of(weights, features), np.float64)
        taken = [solutions.index(tuple(best_schedule(each).tolist())) for each in scores]
        assert found[:, place] == pytest.approx(np.asarray(costs)[np.arange(20), taken], rel=1e-5)


def test_the_target_of_vehicles_is_the_cost_without_passing_delays_on():
    """The sum of targets is the cost of every schedule in which no vehicle has more than two tasks."""
    _, costs, targets = WORLDS[VEHICLES][0](jax.random.key(2), 3)
    before = vehicle_scheduling.predecessors(TASKS)
    chains = np.array([(row >= 0) & (row[np.maximum(row, 0)] >= 0) for row in before]).any(axis=1)
    solutions = np.array(SCHEDULES.solutions, np.float32)
    sums = np.asarray(targets) @ solutions.T
    assert sums[:, ~chains] == pytest.approx(np.asarray(costs)[:, ~chains], rel=1e-5)
    assert (sums <= np.asarray(costs) + 1e-3).all()
    assert (sums[:, chains] < np.asarray(costs)[:, chains] - 1).any()


def test_lowest_finds_the_vertex_of_a_parabola():
    smoothings = np.array([0.1, 0.2, 0.4, 0.8])
    excess = 0.03 * np.exp(0.4 * np.log(smoothings / 0.3) ** 2)
    assert lowest(smoothings, excess) == pytest.approx((0.3, 0.03))
    assert lowest(smoothings, np.array([0.1, 0.2, 0.4, 0.8])) == (0.1, 0.1)
    assert lowest(smoothings, np.array([0.3, 0.0, 0.4, 0.8])) == (0.2, 0.0)


@pytest.mark.parametrize("world", [PATHS, VEHICLES])
def test_a_pool_is_consistent(world):
    found = pools(world).population(0)
    assert (np.diff(found["crossing"]) > 0).all()
    assert found["bias"][-1] > 0
    # The best angle of the pool has no excess without smoothing, and its bias is the least excess with it.
    assert (found["excess"] >= 0).all()
    assert (found["excess_perturbed"][0] == found["excess"][0]).all()
    assert (found["predicted_excess"] > 0).all()
