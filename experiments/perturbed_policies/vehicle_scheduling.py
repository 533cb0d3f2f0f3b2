"""Stochastic vehicle scheduling: which vehicle serves which tasks, when late vehicles delay all that they serve later.

Tasks are numbered by their start. A schedule gives each task its predecessor, an earlier task whose vehicle goes on to
it and to no other one, or none: then a vehicle of its own leaves the depot. So the schedules of T tasks are the
partitions of the tasks into vehicles. Components of a solution, and of scores, are arcs: first T from the depot, then
(i, j) for i < j, ordered by i.
"""

import itertools

import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.perturbed_policies.oracles import Listed

DEPOT = -1


def arcs(tasks: int) -> np.ndarray:
    """`[D, 2]`, from where to where each arc leads, with `DEPOT` for the depot; D = T (T + 1) / 2."""
    return np.array(list(itertools.combinations(range(DEPOT, tasks), 2)))


def predecessors(tasks: int) -> np.ndarray:
    """`[K, T]`, the predecessor of each task, or `DEPOT`, in all schedules; K is the Bell number of T."""
    found = [()]
    for task in range(tasks):
        found = [
            (*before, i)
            for before in found
            for i in range(DEPOT, task)
            if i == DEPOT or i not in before
        ]
    return np.array(found)


def schedules(tasks: int) -> Listed:
    """The oracle over all schedules, in the order of `predecessors`."""
    start, end = arcs(tasks).T
    taken = predecessors(tasks)[:, end] == start
    return Listed(tuple(map(tuple, taken.astype(int).tolist())))


def schedule_costs(
    slack: Array,
    delays: Array,
    travel: Array,
    vehicle_cost: float,
    delay_cost: float,
    before: np.ndarray,
) -> Array:
    """`[K]`, the mean cost of schedules: vehicles, travel, and the delays of all tasks, over S scenarios.

        late_j = max(0, late_i + d_i - slack_ij) for the predecessor i of j, 0 without one
        cost   = vehicle_cost * vehicles + sum of travel_ij + delay_cost * mean over scenarios of sum_j late_j

    Delays add up along a vehicle's tasks, so that the cost is not linear in the arcs: every policy that scores arcs is
    misspecified.

    Args:
      slack: `[T, T]`, the start of task j less the time at which a vehicle comes there from task i, without delays;
        negative where it cannot be in time.
      delays: `[S, T]`, of each task while it is served.
      travel: `[T, T]`.
      before: `[K, T]`, predecessors, as `predecessors` lists them.
    """
    late = jnp.zeros((*before.shape, len(delays)))
    total = vehicle_cost * (before == DEPOT).sum(axis=1)
    for task in range(before.shape[1]):
        first, i = before[:, task] == DEPOT, np.maximum(before[:, task], 0)
        arrives = late[np.arange(len(before)), i] + delays.T[i] - slack[i, task][:, None]
        now = jnp.where(first[:, None], 0.0, jnp.maximum(arrives, 0.0))
        late = late.at[:, task].set(now)
        total = total + jnp.where(first, 0.0, travel[i, task]) + delay_cost * now.mean(axis=1)
    return total
