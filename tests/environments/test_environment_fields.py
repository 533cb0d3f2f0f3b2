"""Fields of environments that do not go together, or make too much; types and ranges are in test_refusals.py."""

import numpy as np
import pytest

from ipsrl.environments.agents.interview import Interview
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.environments.agents.search_questions import SearchQuestions
from ipsrl.environments.graphs.bandit import Bandit, VectorBandit
from ipsrl.environments.graphs.forks import Forks
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.factors import Factors
from ipsrl.environments.tasks.graph_coloring import GraphColoring
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.tasks.long_work import LongWork

pytestmark = pytest.mark.core

REWARDS = ("base_reward", "edge_reward", "peak_reward")
FIELDS = [
    (Bandit, {"rewards": ()}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": (1.0, float("nan"))}, "rewards must be a tuple of numbers"),
    (Bandit, {"rewards": ((1.0,), (1.0, 2.0))}, "rewards must be a tuple of numbers"),
    (VectorBandit, {"rewards": ((1.0,), (1.0, 2.0))}, "rewards must be a tuple of tuples of one length"),
    (Interview, {"users": 2}, "users is 2, it must be at least the number of kinds, 3"),
    (Interview, {"kinds": ()}, "kinds is .., it must have one kind of user or more, each once"),
    (Interview, {"kinds": ("open", "open")}, "it must have one kind of user or more, each once"),
    (Interview, {"turns": 42}, "turns is 42, it must be a multiple of every, 4"),
    (SearchAgent, {"lookups": 1, "hops": (3,), "shortest": 2}, "lookups is 1, but a question needs 2: allow as many"),
    (SearchAgent, {"hops": ()}, "it must have one length or more, each once"),
    (SearchAgent, {"hops": (1,), "shortest": 2}, "only 0 questions of hops=1 with a shortest route of 2"),
    (SearchAgent, {"hops": (1,), "problems": 100}, "hops=1, but 100 are to be asked: choose fewer problems"),
    (SearchAgent, {"worth": ()}, "no right answer to some question is worth anything"),
    (SearchAgent, {"worth": (1.0, 0.0)}, "no right answer to some question is worth anything"),
    (SearchAgent, {"outcome": "behaviour", "lookups": 8}, "more behaviours than int32 can number"),
    (SearchQuestions, {"worth": (0.0,)}, "no answer is worth anything"),
    (Forks, {"rewards": (1.0,)}, "rewards must be 9 finite numbers"),
    (Forks, {"forks": 40}, "too many states"),
    (Tree, {"rewards": (1.0, 2.0)}, "rewards must be a tuple of depth [+] 1 = 4 finite numbers"),
    (Tree, {"rewards": (1.0, -1.0, 0.0, 1e30)}, "each 0 or of a size from 1e-15 to 1e[+]15, not .*1e[+]30"),
    *((Hypergrid, {name: 1e-30}, f"{name} is 1e-30, it must be .* 0, or from 1e-15 to 1e[+]15") for name in REWARDS),
    (Hypergrid, {"dimensions": 16, "side": 8}, "states fit into int32; 8[*][*]16 does not."),
    (HypospaceCausal, {"nodes": 6}, "give 3125913 graphs, more than the 100000 .*: choose a smaller max_edges"),
    (HypospaceVoxels, {"grid": 6, "blocks": 4}, "more than the 100000 that are enumerated"),
    (Addition, {"modulus": 1}, "modulus is 1, it must be 0 for none, or lie between 2 and 1998"),
    (Addition, {"digits": 1, "modulus": 19, "problems": 1}, "modulus is 19, it must be 0 for none, or .* 2 and 18"),
    (Addition, {"digits": 1, "problems": 82}, "problems is 82, but digits=1 has only 81 pairs of numbers"),
    (Addition, {"spellings": ()}, "spellings is .*, it must have one spelling or more, each once"),
    (Addition, {"spellings": ("plain", "plain")}, "it must have one spelling or more, each once"),
    (GraphColoring, {"vertices": 12}, "12 vertices in 3 colors have 531441 assignments, more than the 100000"),
    (GraphColoring, {"hidden": 3, "renaming": True}, "renaming needs hidden=0: where some colors are shown"),
    (AdditionModes, {"problems": 145}, "problems is 145, but digits=2 has at most 144"),
    (GraphSearch, {"branches": 6, "depth": 6}, "branches=6 and depth=6 make 32 vertices, more than the 23"),
    (LongWork, {"longest_work": 8, "work": 9}, "work is 9, it must lie between 0 and 8"),
    (Factors, {"smallest": 90, "largest": 20}, "^no 4 numbers from 90 to 20 have two proper divisors each and 16 to "),
    (Factors, {"most_solutions": 15, "least_solutions": 1}, "^no 4 numbers from 6 to 96 have .* and 1 to 15 solutions"),
    (Factors, {"most_solutions": 20, "least_solutions": 30}, "and 30 to 20 solutions together: choose wider limits$"),
    (Factors, {"numbers": 1, "least_solutions": 50, "most_solutions": 90}, "^no 1 numbers from 6 to 96 have"),
    (Reactions, {"acids": ()}, "cores and acids must have at least one item each"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), FIELDS)
def test_fields_out_of_range_are_refused(kind, fields, message):
    with pytest.raises(ValueError, match=message) as refused:
        kind(**fields)
    assert "\n" not in str(refused.value)


def test_numbers_of_numpy_become_numbers_of_python():
    task = Addition(digits=np.int64(2), seed=np.int64(3), problems=np.uint8(4))
    assert task == Addition(digits=2, seed=3, problems=4)
    assert task.prompt_text(0) == Addition(digits=2, seed=3, problems=4).prompt_text(0)
    assert [type(value) for value in (task.digits, task.seed, task.problems)] == [int] * 3
    graph = Tree(depth=np.int32(2), longest_step=1, rewards=(np.float32(0.5), np.int64(1), 2.0))
    assert [type(reward) for reward in graph.rewards] == [float, int, float]
    with pytest.raises(ValueError, match=r"seed is .*3\.0.*, it must be a whole number"):
        Addition(seed=np.float64(3))
