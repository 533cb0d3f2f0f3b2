import hashlib
import random

import numpy as np
import pytest

from ipsrl.environments.tasks.graph_search import SWITCH, SWITCH_TOKEN, GraphSearch
from ipsrl.environments.text import STOP
from tests.environments.reading.answers import tokens_of, trajectories_of
from tests.environments.tasks.plain_graphs import edges_of, every_path, is_correct

TASK = GraphSearch()
TASKS = [TASK, GraphSearch(branches=4, depth=3, dead_first=0.9), GraphSearch(3, 6, 0.3, 0.5, problems=16)]
every_task = pytest.mark.parametrize("task", TASKS, ids=str)


@every_task
def test_right_are_all_paths_from_start_to_goal(task):
    for prompt in range(task.num_prompts):
        heads, goal = edges_of(task, prompt)
        right = {" ".join(path) for path in every_path(heads, goal)}
        assert {task.hypotheses[i] for i in np.flatnonzero(task.admissible[prompt])} == right != set()
        assert task.question_text(prompt) == " ".join(f"{tail}>{head}" for tail in heads for head in heads[tail])
        branches = [is_correct(heads, goal, [branch]) for branch in heads["A"]]
        assert len(branches) == task.branches
        assert any(branches[:-1])
    assert task.num_hypotheses == task.branches ** (task.depth - 1)


def test_the_first_branch_leads_nowhere_as_often_as_asked():
    for dead_first in (0.0, 0.3, 1.0):
        task = GraphSearch(dead_first=dead_first, problems=400)
        dead = [not is_correct(*edges_of(task, prompt), ["B"]) for prompt in range(task.num_prompts)]
        assert np.mean(dead) == pytest.approx(dead_first, abs=0.06 * (0 < dead_first < 1))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<answer>C E I K</answer>", "C E I K"),
        ("B?\n<answer> B F Alternatively C->E->I->K</answer>", "C E I K"),
        ("<answer>B alternatively alternatively\nC, E, I → K</answer>", "C E I K"),
        ("<answer>what alternatively C E I K</answer>", "C E I K"),
        ("<answer>C E</answer>", "C E"),
        ("<answer>A C E I K</answer>", "A C E I K"),
        ("<answer>c e i k</answer>", None),
        ("<answer>C E I L</answer>", None),
        ("<answer>C E I K alternatively</answer>", None),
        ("<answer>CEIK</answer>", None),
    ],
)
def test_answers_in_text(text, name):
    known = {path: i for i, path in enumerate(TASK.hypotheses)}
    assert TASK.parse_text(text) == (-1 if name is None else known.get(name, TASK.outside(name)))
    if name in ("C E I K", "C E"):
        assert TASK.parse([*tokens_of(TASK, ["B", "K", SWITCH, SWITCH, *name.split()]), STOP]) == TASK.parse_text(text)


def slow_thoughts(heads, goal, symbols):
    """Tokens up to the first correct thought, all tokens, and switches, by cutting the answer at every place."""
    places = [i for i in range(1, len(symbols) + 1) if i == len(symbols) or symbols[i] == SWITCH]
    for end in places:
        begin = max([i + 1 for i in range(end) if symbols[i] == SWITCH], default=0)
        if is_correct(heads, goal, symbols[begin:end]):
            return end, len(symbols), symbols.count(SWITCH)
    return 0, len(symbols), symbols.count(SWITCH)


@every_task
def test_the_first_correct_thought_is_known(task):
    rng, answers, expected = random.Random(0), [], []
    for prompt in range(task.num_prompts):
        heads, goal = edges_of(task, prompt)
        paths = every_path(heads, goal)
        group = []
        for _ in range(40):
            symbols = []
            for _ in range(rng.randrange(4)):
                path = rng.choice(paths)[: rng.randrange(task.depth + 1)]
                if path and rng.random() < 0.5:
                    path[rng.randrange(len(path))] = rng.choice([*heads, goal, "A>B"])
                symbols += [*path, SWITCH]
            group.append(symbols[: task.max_tokens - 1])
        answers.append([[*tokens_of(task, symbols), *rng.choice([[], [STOP]])] for symbols in group])
        expected.append([slow_thoughts(heads, goal, symbols) for symbols in group])
    thoughts = task.thoughts(trajectories_of(task, range(task.num_prompts), answers))
    found = np.stack([thoughts.first_correct, thoughts.tokens, thoughts.switches], axis=-1)
    np.testing.assert_array_equal(found, expected)
    assert 0.2 < (found[..., 0] > 0).mean() < 0.8


def test_random_forms_begin_with_other_thoughts():
    forms = [TASK.spell(TASK.answers[5], np.random.default_rng(seed)) for seed in range(100)]
    assert {form.count(SWITCH) for form in forms} == {0, 1, 2}
    assert all(" ".join(form).endswith(TASK.hypotheses[5]) for form in forms)
    assert " ".join(TASK.spell(TASK.answers[5], None)) == TASK.hypotheses[5]
    assert TASK.vocabulary[SWITCH_TOKEN] == SWITCH


def test_graphs_are_those_of_seeds_that_were_published():
    found = [hashlib.sha256(task.graphs.tobytes()).hexdigest()[:16] for task in TASKS]
    assert found == ["047e64959839943d", "eb500893b08a3a18", "b0acc74b6c19a31b"]
