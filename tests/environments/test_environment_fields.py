"""Fields out of range, in every environment and in the verifier pool."""

import numpy as np
import pytest

from ipsrl.environments.addition import Addition
from ipsrl.environments.addition_modes import AdditionModes
from ipsrl.environments.bandit import Bandit, VectorBandit
from ipsrl.environments.countdown import Countdown
from ipsrl.environments.factors import Factors
from ipsrl.environments.graph_coloring import GraphColoring
from ipsrl.environments.graph_search import GraphSearch
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.environments.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.hypospace_causal import HypospaceCausal
from ipsrl.environments.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.n_queens import NQueens
from ipsrl.environments.plan_and_execute import PlanAndExecute
from ipsrl.environments.tree import Tree
from ipsrl.environments.verifier_pool import VerifierPool

pytestmark = pytest.mark.core

FIELDS = [
    (Bandit, {"rewards": ()}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": [1.0, 2.0]}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": ([1.0], [2.0])}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": (1.0, float("nan"))}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": ((1.0,), (1.0, 2.0))}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": 1.0}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": ("a",)}, "rewards must be a tuple of numbers"),
    (
        VectorBandit,
        {"rewards": (1.0, 2.0)},
        "rewards must be a tuple of tuples of one length, the rewards of each arm,",
    ),
    (VectorBandit, {"rewards": ((1.0,), (1.0, 2.0))}, "rewards must be a tuple of tuples of one length"),
    (VectorBandit, {"rewards": ()}, "rewards must be a tuple of tuples of one length"),
    (Tree, {"depth": 0}, "depth is 0, it must be at least 1"),
    (Tree, {"longest_step": 4}, "longest_step must be in 1 .. depth = 1 .. 3, not 4."),
    (Tree, {"longest_step": 0}, "longest_step must be in 1 .. depth = 1 .. 3, not 0."),
    (Tree, {"rewards": (1.0, 2.0)}, "rewards must be a tuple of depth [+] 1 = 4 finite numbers"),
    (Tree, {"rewards": [1.0, 2.0, 3.0, 4.0]}, "rewards is .* it must be a tuple"),
    (Tree, {"rewards": (1.0, 2.0, 3.0, float("inf"))}, "rewards is .*each item a finite number"),
    (Hypergrid, {"dimensions": 0}, "dimensions is 0, it must be at least 1"),
    (Hypergrid, {"side": 1}, "side is 1, it must be at least 2"),
    (Hypergrid, {"dimensions": 16, "side": 8}, "states fit into int32; 8[*][*]16 does not."),
    (Hypergrid, {"base_reward": -0.1}, "base_reward is -0.1, it must be finite and not negative"),
    (Hypergrid, {"peak_reward": float("nan")}, "peak_reward is nan, it must be a finite number"),
    (HypospaceBoolean, {"operators": "none"}, "operators is 'none', it must be one of basic, extended, full"),
    (HypospaceBoolean, {"depth": 4}, "depth is 4, it must lie between 1 and 3"),
    (HypospaceBoolean, {"observations": 5}, "observations is 5, it must lie between 1 and 4"),
    (HypospaceCausal, {"nodes": 1}, "nodes is 1, it must lie between 2 and 8"),
    (HypospaceCausal, {"nodes": 3.0}, r"nodes is 3\.0, it must be a whole number"),
    (HypospaceCausal, {"max_edges": 4}, "max_edges must be an integer from 1 to 3, got 4"),
    (HypospaceCausal, {"perturbations": 0}, "perturbations must be an integer from 1 to 3, got 0"),
    (HypospaceCausal, {"seed": -1}, "seed is -1, it must lie between 0"),
    (HypospaceCausal, {"nodes": 6}, "give 3125913 graphs, more than the 100000 .*: choose a smaller max_edges"),
    (HypospaceVoxels, {"grid": 1}, "grid is 1, it must lie between 2 and 6"),
    (HypospaceVoxels, {"max_height": 0}, "max_height is 0, it must lie between 1 and 9"),
    (HypospaceVoxels, {"blocks": 10}, "blocks must be an integer from 1 to 9, got 10"),
    (HypospaceVoxels, {"fixed": "yes"}, "fixed is 'yes', it must be "),
    (HypospaceVoxels, {"grid": 6, "blocks": 4}, "more than the 100000 that are enumerated"),
    (Countdown, {"numbers": 7}, "numbers is 7, it must lie between 2 and 6"),
    (Countdown, {"problems": 0}, "problems is 0, it must lie between 1"),
    (Countdown, {"largest_number": 1}, "largest_number is 1, it must lie between 2"),
    (Countdown, {"largest_target": 9}, "largest_target is 9, it must lie between 10"),
    (Countdown, {"least_solutions": 0}, "least_solutions is 0, it must lie between 1"),
    (Countdown, {"seed": -1}, "seed is -1, it must lie between 0"),
    (Countdown, {"source": "none"}, "source is 'none', it must be one of uniform, reasoning_gym"),
    (Addition, {"digits": 4}, "digits is 4, it must lie between 1 and 3"),
    (Addition, {"modulus": 1}, "modulus is 1, it must be 0 for none, or lie between 2 and 1998"),
    (Addition, {"digits": 1, "modulus": 19, "problems": 1}, "modulus is 19, it must be 0 for none, or .* 2 and 18"),
    (Addition, {"problems": 5000}, "problems is 5000, it must lie between 1 and 4096"),
    (Addition, {"digits": 1, "problems": 82}, "problems is 82, but digits=1 has only 81 pairs of numbers"),
    (Addition, {"spellings": ()}, "spellings is .*, it must have one spelling or more, each once"),
    (Addition, {"spellings": ("plain", "plain")}, "it must have one spelling or more, each once"),
    (Addition, {"spellings": ("roman",)}, "spellings is .*roman.*, it must be one of plain, zero, sign, decimal"),
    (Addition, {"scratchpad": "yes"}, "scratchpad is 'yes', it must be one of none, optional, announced"),
    (GraphColoring, {"vertices": 2}, "vertices is 2, it must lie between 3 and 12"),
    (GraphColoring, {"colors": 7}, "colors is 7, it must lie between 2 and 6"),
    (GraphColoring, {"edge_probability": 1.0}, "edge_probability is 1.0, it must lie strictly between 0 and 1"),
    (GraphColoring, {"problems": 0}, "problems is 0, it must lie between 1"),
    (GraphColoring, {"least_solutions": 0}, "least_solutions is 0, it must lie between 1"),
    (GraphColoring, {"renaming": 1.5}, "renaming is 1.5, it must be "),
    (GraphColoring, {"seed": -1}, "seed is -1, it must lie between 0"),
    (GraphColoring, {"vertices": 12}, "12 vertices in 3 colors have 531441 assignments, more than the 100000"),
    (GraphColoring, {"hidden": 7}, "hidden must be an integer from 0 to 6, got 7"),
    (GraphColoring, {"skip": -1}, "skip is -1, it must lie between 0 and 100000"),
    (Factors, {"numbers": 9}, "numbers is 9, it must lie between 1 and 8"),
    (Factors, {"smallest": 5}, "smallest is 5, it must lie between 6 and 1000"),
    (Factors, {"largest": 1001}, "largest is 1001, it must lie between 6 and 1000"),
    (Factors, {"largest": 96.0}, "largest is 96.0, it must be a whole number"),
    (Factors, {"problems": 0}, "problems is 0, it must lie between 1 and 100000"),
    (Factors, {"least_solutions": 0}, "least_solutions is 0, it must lie between 1"),
    (Factors, {"most_solutions": 0}, "most_solutions is 0, it must lie between 1"),
    (Factors, {"skip": -1}, "skip is -1, it must lie between 0"),
    (Factors, {"seed": -1}, "seed is -1, it must lie between 0"),
    (NQueens, {"n": 10}, "n is 10, it must lie between 4 and 9"),
    (NQueens, {"max_remove": 9}, "max_remove must be an integer from 1 to 8, got 9"),
    (NQueens, {"min_remove": 8}, "min_remove must be an integer from 1 to 7, got 8"),
    (NQueens, {"problems": 0}, "problems is 0, it must lie between 1"),
    (NQueens, {"least_solutions": 0}, "least_solutions is 0, it must lie between 1"),
    (NQueens, {"seed": -1}, "seed is -1, it must lie between 0"),
    (AdditionModes, {"gamma": -0.1}, "gamma is -0.1, it must be at least 0 and below 1"),
    (AdditionModes, {"problems": 145}, "problems is 145, but digits=2 has at most 144"),
    (AdditionModes, {"forced": "all"}, "forced is 'all', it must be one of none, half, short, think"),
    (PlanAndExecute, {"length": 3}, "length is 3, it must lie between 4 and 12"),
    (PlanAndExecute, {"fitting": 0}, "fitting is 0, it must lie between 1 and 4"),
    (PlanAndExecute, {"problems": 1025}, "problems is 1025, it must lie between 1 and 1024"),
    (GraphSearch, {"branches": 2}, "branches is 2, it must lie between 3 and 6"),
    (GraphSearch, {"branches": 6, "depth": 6}, "branches=6 and depth=6 make 32 vertices, more than the 23"),
    (GraphSearch, {"edge_probability": 1.0}, "edge_probability is 1.0, it must lie strictly between 0 and 1"),
    (GraphSearch, {"dead_first": 1.5}, "dead_first is 1.5, it must lie between 0 and 1"),
    (GraphSearch, {"problems": 0}, "problems is 0, it must lie between 1 and 4096"),
    (VerifierPool, {"workers": -1}, "workers .* is -1"),
    (VerifierPool, {"seconds": 0}, "seconds .* is 0"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), FIELDS)
def test_fields_out_of_range_are_refused(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        kind(**fields)


def test_numbers_of_numpy_become_numbers_of_python():
    task = Addition(digits=np.int64(2), seed=np.int64(3), problems=np.uint8(4))
    assert task == Addition(digits=2, seed=3, problems=4)
    assert task.prompt_text(0) == Addition(digits=2, seed=3, problems=4).prompt_text(0)
    assert [type(value) for value in (task.digits, task.seed, task.problems)] == [int] * 3
    graph = Tree(depth=np.int32(2), longest_step=1, rewards=(np.float32(0.5), np.int64(1), 2.0))
    assert [type(reward) for reward in graph.rewards] == [float, int, float]
    with pytest.raises(ValueError, match=r"seed is .*3\.0.*, it must be a whole number"):
        Addition(seed=np.float64(3))
