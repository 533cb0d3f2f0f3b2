import jax
import numpy as np
import pytest

from experiments.perturbed_policies.oracles import GridPath, Listed
from experiments.perturbed_policies.vehicle_scheduling import DEPOT, arcs, predecessors, schedule_costs, schedules
from tests.experiments.perturbed_policies.known import best_schedule, top_k


@pytest.mark.parametrize(("rows", "columns", "count"), [(5, 5, 70), (2, 7, 7), (4, 1, 1)])
def test_dynamic_programming_finds_the_best_of_all_paths(rows, columns, count):
    grid = GridPath(rows, columns)
    listed = Listed(tuple(map(tuple, grid.paths().tolist())))
    assert len(set(listed.solutions)) == count
    scores = np.random.default_rng(1).normal(size=(50, grid.size)).astype(np.float32)
    found = np.asarray(grid.solve(scores))
    assert (found == np.asarray(listed.solve(scores))).all()
    np.testing.assert_allclose(jax.vmap(grid.chosen)(scores, scores), (found * scores).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("oracle", [top_k(4, 2), GridPath(3, 3), Listed(((1, 0), (0, 1)))])
def test_a_tie_has_one_whole_solution(oracle):
    solution = np.asarray(oracle.solve(np.zeros(oracle.size, np.float32)))
    assert set(solution.tolist()) == {0.0, 1.0}
    first = {4: [1, 1, 0, 0], 2: [1, 0]}
    if oracle.size in first:
        assert solution.tolist() == first[oracle.size]


@pytest.mark.parametrize(("tasks", "count"), [(1, 1), (4, 15), (6, 203)])
def test_schedules_are_the_partitions_of_tasks_and_the_assignment_finds_the_best(tasks, count):
    oracle, rng = schedules(tasks), np.random.default_rng(4)
    assert len(set(oracle.solutions)) == count
    assert {sum(solution) for solution in oracle.solutions} == {tasks}
    assert oracle.size == len(arcs(tasks)) == tasks * (tasks + 1) // 2
    for _ in range(30):
        scores = rng.normal(size=oracle.size)
        with jax.enable_x64(True):
            assert best_schedule(scores).tolist() == np.asarray(oracle.solve(scores)).tolist()


def test_delays_add_up_along_a_vehicle():
    """Three tasks, one scenario: task 0 is 3 late for 1, which is 2 late of its own, and each has slack 1."""
    slack, travel = np.full((3, 3), 1.0), np.full((3, 3), 0.5)
    before = predecessors(3)
    costs = np.asarray(schedule_costs(slack, np.array([[3.0, 2.0, 0.0]]), travel, 10.0, 2.0, before))
    by_schedule = {tuple(row): cost for row, cost in zip(before.tolist(), costs.tolist(), strict=True)}
    # late_1 = 3 - 1 = 2, late_2 = 2 + 2 - 1 = 3.
    assert by_schedule[DEPOT, 0, 1] == pytest.approx(10 + 2 * 0.5 + 2 * (2 + 3))
    assert by_schedule[DEPOT, DEPOT, 1] == pytest.approx(20 + 0.5 + 2 * 1)
    assert by_schedule[DEPOT, DEPOT, DEPOT] == 30
