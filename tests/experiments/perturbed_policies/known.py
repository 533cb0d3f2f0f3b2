"""Known answers for oracles: the best items, and the best schedule as an assignment."""

import itertools
import math

import numpy as np
from scipy.optimize import linear_sum_assignment

from experiments.perturbed_policies.oracles import Listed
from experiments.perturbed_policies.vehicle_scheduling import DEPOT, arcs


def top_k(items, k):
    """The k items of the highest scores; of equal ones those that stand first."""
    chosen = itertools.combinations(range(items), k)
    return Listed(tuple(tuple(int(item in each) for item in range(items)) for each in chosen))


def cost_by(oracle):
    """(scores, costs) -> <c, y*(s)>."""
    return lambda scores, costs: (oracle.solve(scores) * costs).sum(axis=-1)


def best_schedule(scores):
    """`[D]`, the schedule of the highest score, as an assignment of predecessors to tasks."""
    tasks = (math.isqrt(8 * scores.size + 1) - 1) // 2
    start, end = arcs(tasks).T
    # A column for each task as the predecessor, then one for each vehicle that leaves the depot.
    column = np.where(start == DEPOT, tasks + end, start)
    gain = np.full((tasks, 2 * tasks), -np.inf)
    gain[end, column] = scores
    rows, columns = linear_sum_assignment(gain, maximize=True)
    taken = np.zeros(gain.shape, int)
    taken[rows, columns] = 1
    return taken[end, column]
