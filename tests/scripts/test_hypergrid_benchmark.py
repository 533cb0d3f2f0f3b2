import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import bandit, hypergrid
from benchmarks.peers.hypergrid_task import R0, R1, R2, Task, steps
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.objectives import make
from ipsrl.policies.policy import distribution


@pytest.mark.parametrize(("dimensions", "side"), [(1, 3), (2, 8), (3, 4)])
def test_the_distribution_and_the_target_are_those_of_ipsrl(dimensions, side):
    task, grid = Task(dimensions, side, 16, 1), Hypergrid(dimensions, side, R0, R1, R2)
    np.testing.assert_array_equal(task.coordinates, grid.coordinates(np.arange(side**dimensions)))
    np.testing.assert_allclose(task.target, grid.outcome_space(0).target, rtol=1e-5)
    states = jnp.arange(grid.num_observations)
    logits = jax.random.normal(jax.random.key(0), (len(states), dimensions + 1))
    probs = grid.terminal_distribution(distribution(logits, grid.legal(states), 1.0))
    np.testing.assert_allclose(task.probs(np.asarray(logits)), probs, atol=1e-6)
    measured = task.measured(np.asarray(logits))
    np.testing.assert_allclose(measured["total_variation"], np.abs(probs - task.target).sum() / 2, atol=1e-5)


def test_walks_have_the_length_of_their_cell_and_a_stop():
    task = Task(2, 3, 16, 1)
    to_the_corner = np.tile([50.0, 0.0, -50.0], (9, 1))
    assert task.measured(to_the_corner)["mean_length"] == pytest.approx(5.0)
    at_once = np.tile([0.0, 0.0, 100.0], (9, 1))
    assert task.measured(at_once)["mean_length"] == pytest.approx(1.0)


def test_a_task_survives_the_way_to_a_contender():
    task = Task(2, 8, 16, 5, objective="ips_grpo(probability=exact)", learning_rate=3e-3)
    assert Task.read(task.write()) == task


def test_the_first_step_trains_nothing():
    task, trained = Task(1, 3, 16, 1), []
    step = steps(task, lambda: trained.append(1), lambda: np.zeros((3, 2)))
    assert step().keys() == {"seconds", "total_variation", "mean_length"}
    assert trained == []
    step()
    assert trained == [1]


class Scripted:
    """A contender whose distances are known; each step takes a second."""

    def __init__(self, name, distances):
        self.name, self.description, self.first_step = name, {}, 2.0
        self._distances = itertools.chain(distances, itertools.repeat(distances[-1]))

    def step(self):
        return {"seconds": 1.0, "total_variation": next(self._distances), "mean_length": 3.0}


def test_contenders_stop_at_the_last_distance_or_when_their_time_is_up():
    quick, slow = Scripted("quick", [0.5, 0.09, 0.04]), Scripted("slow", [0.5])
    curves = hypergrid.train([quick, slow], seconds=6.0, runs=2)
    assert [len(curve) for curve in curves] == [3, 7]
    task = Task(2, 8, batch=10, updates=4)
    first, second = (hypergrid.summarise(task, *both, runs=2) for both in zip([quick, slow], curves, strict=True))
    assert first.reached == {"0.1": 2.0, "0.05": 3.0}
    assert (first.updates, first.start, first.end, first.end_length) == (12, 40.0, 40.0, 3.0)
    assert second.reached == {"0.1": None, "0.05": None}
    title, *rows = hypergrid.table([first, second])
    assert "s to TV < 0.1" in title
    assert rows[0].split() == ["quick", "40", "120", "40", "120", "3.0", "2.00", "3.00", "0.040", "3.0"]
    assert rows[1].split()[-4:] == ["-", "-", "0.500", "7.0"]


@pytest.mark.slow
@pytest.mark.parametrize("name", bandit.OBJECTIVES)
def test_numpy_makes_the_updates_of_ipsrl_on_average(name):
    rewards, runs = np.float32([0.2, 0.5, 1.0]), 20_000
    logits = np.float32([0.3, 0.0, -0.4])
    new = bandit.numpy_update(np.random.default_rng(1), np.tile(logits, (runs, 1)), rewards, 4, bandit.OBJECTIVES[name])
    updates = (new - logits) / bandit.LEARNING_RATE
    expected = expected_update(make(name), jnp.asarray(logits), jnp.asarray(rewards), 4)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_array_less(np.abs(updates.mean(axis=0) - expected), 5 * updates.std(axis=0) / runs**0.5)


def test_numpy_leaves_groups_of_one_outcome_alone():
    certain = np.float32([[60.0, 0.0, 0.0]])
    for inverse in (False, True):
        new = bandit.numpy_update(np.random.default_rng(0), certain, np.float32([0.3, 0.2, 0.1]), 3, inverse)
        np.testing.assert_array_equal(new, certain)
