"""Fields of environments that do not go together, or make too much; types and ranges are in test_refusals.py."""

import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit, VectorBandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.graph_coloring import GraphColoring
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels

pytestmark = pytest.mark.core

FIELDS = [
    (Bandit, {"rewards": ()}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": (1.0, float("nan"))}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": ((1.0,), (1.0, 2.0))}, "rewards must be a tuple of numbers"),
    (VectorBandit, {"rewards": ((1.0,), (1.0, 2.0))}, "rewards must be a tuple of tuples of one length"),
    (Tree, {"rewards": (1.0, 2.0)}, "rewards must be a tuple of depth [+] 1 = 4 finite numbers"),
    (Hypergrid, {"dimensions": 16, "side": 8}, "states fit into int32; 8[*][*]16 does not."),
    (HypospaceCausal, {"nodes": 6}, "give 3125913 graphs, more than the 100000 .*: choose a smaller max_edges"),
    (HypospaceVoxels, {"grid": 6, "blocks": 4}, "more than the 100000 that are enumerated"),
    (Addition, {"modulus": 1}, "modulus is 1, it must be 0 for none, or lie between 2 and 1998"),
    (Addition, {"digits": 1, "modulus": 19, "problems": 1}, "modulus is 19, it must be 0 for none, or .* 2 and 18"),
    (Addition, {"digits": 1, "problems": 82}, "problems is 82, but digits=1 has only 81 pairs of numbers"),
    (Addition, {"spellings": ()}, "spellings is .*, it must have one spelling or more, each once"),
    (Addition, {"spellings": ("plain", "plain")}, "it must have one spelling or more, each once"),
    (GraphColoring, {"vertices": 12}, "12 vertices in 3 colors have 531441 assignments, more than the 100000"),
    (AdditionModes, {"problems": 145}, "problems is 145, but digits=2 has at most 144"),
    (GraphSearch, {"branches": 6, "depth": 6}, "branches=6 and depth=6 make 32 vertices, more than the 23"),
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
