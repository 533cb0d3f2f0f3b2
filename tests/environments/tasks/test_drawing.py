import dataclasses
import itertools

import pytest

from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.drawing import MOST_DRAWS, drawn_problems
from ipsrl.environments.tasks.factors import Factors
from ipsrl.environments.tasks.graph_coloring import GraphColoring
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.n_queens import NQueens
from ipsrl.environments.tasks.plan_and_execute import PlanAndExecute

DRAWN = [
    Countdown(numbers=3, problems=16, largest_number=9, largest_target=30),
    Countdown(numbers=3, problems=16, source="reasoning_gym"),
    Factors(problems=16),
    GraphColoring(vertices=5, problems=16),
    GraphColoring(vertices=5, problems=16, hidden=3),
    GraphSearch(problems=16),
    HypospaceCausal(5, max_edges=4),
    NQueens(problems=16),
    PlanAndExecute(problems=16),
]
SCARCE = [
    (Countdown(problems=64, largest_number=2), "5 of 64 problems with 4 numbers up to 2 and 2 solutions or more"),
    (Factors(numbers=1, largest=20, least_solutions=1), r"\d of 64 problems"),
    (GraphColoring(vertices=3), r"\d of 64 graphs with 3 vertices and 2 solutions or more"),
    (GraphSearch(problems=4096, depth=2), r"\d of 4096 graphs with such branches"),
    (GraphSearch(edge_probability=1e-6), "0 of 64 graphs with such branches"),
    (NQueens(4, 4, 4, problems=8), "1 of 8 boards with 2 solutions or more"),
    (PlanAndExecute(length=4, fitting=4, problems=1024), r"\d+ of 1024 lists of 4 digits that 4 plans fit"),
]


def test_the_first_different_problems_are_taken():
    draws = [("a", 1), None, ("a", 2), ("b", 3), ("c", 4)]
    assert drawn_problems(draws, 2, "letters", "fewer") == {"a": 1, "b": 3}
    assert drawn_problems(draws, 2, "letters", "fewer", skip=1) == {"b": 3, "c": 4}
    with pytest.raises(ValueError, match=r"^only 3 of 4 letters were found in 5 draws: choose fewer$"):
        drawn_problems(draws, 3, "letters", "fewer", skip=1)


def test_what_is_not_there_is_not_sought_forever():
    draws = itertools.chain([("a", 1)], itertools.repeat(None))
    with pytest.raises(ValueError, match=f"^only 1 of 2 letters were found in {MOST_DRAWS + 1} draws"):
        drawn_problems(draws, 2, "letters", "fewer")


@pytest.mark.parametrize("task", DRAWN, ids=str)
def test_a_seed_draws_the_same_problems_and_another_others(task):
    assert dataclasses.replace(task).asked == task.asked
    assert dataclasses.replace(task, seed=1000).asked != task.asked
    assert task.admissible.any(axis=1).all()


@pytest.mark.parametrize("task", [task for task in DRAWN if hasattr(task, "skip")], ids=str)
def test_skipped_problems_are_held_out(task):
    whole, others = dataclasses.replace(task, problems=24), dataclasses.replace(task, problems=8, skip=16)
    assert task.asked + others.asked == whole.asked
    assert task.vocabulary == others.vocabulary


@pytest.mark.parametrize(("task", "found"), SCARCE, ids=str)
def test_too_few_problems_are_one_sentence(task, found):
    with pytest.raises(ValueError, match=rf"^only {found} were found in \d+ draws: choose fewer"):
        task.problem_table  # noqa: B018
