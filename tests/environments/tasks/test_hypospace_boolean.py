from collections import Counter

import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_boolean import (
    HypospaceBoolean,
    depth_of,
    evaluate,
    infix,
    mechanistic_key,
    read_infix,
)
from tests.environments.reading.answers import tokens_of

# operators, depth -> for k = 1 .. 4, size of the admissible set: how many observation sets have it
SIZES = {
    ("basic", 1): [{2: 4, 4: 2}, {1: 4, 2: 8, 4: 1}, {1: 8, 2: 4}, {1: 4}],
    ("basic", 2): [{5: 4, 10: 2}, {2: 2, 3: 2, 5: 8, 10: 1}, {2: 4, 3: 4, 5: 4}, {2: 2, 3: 2}],
    ("extended", 1): [{2: 2, 3: 4, 4: 2}, {1: 10, 2: 11, 4: 1}, {1: 16, 2: 4}, {1: 6}],
    ("extended", 2): [{14: 2, 17: 4, 20: 2}, {5: 4, 6: 1, 8: 8, 9: 6, 12: 5}, {2: 8, 3: 8, 6: 16}, {1: 2, 2: 8, 4: 4}],
    ("full", 1): [{3: 4, 4: 4}, {1: 5, 2: 15, 3: 1, 4: 1}, {1: 16, 2: 6}, {1: 7}],
}


@pytest.mark.parametrize(
    ("operators", "depth", "expressions", "functions"),
    [
        ("basic", 1, 4, 4),
        ("basic", 2, 10, 4),
        ("extended", 1, 6, 6),
        ("extended", 2, 34, 14),
        ("full", 1, 7, 7),
        ("full", 2, 65, 16),
    ],
)
def test_spaces(operators, depth, expressions, functions):
    task = HypospaceBoolean(operators, depth)
    assert task.num_hypotheses == expressions
    assert len(np.unique(task.truth_tables, axis=0)) == functions


@pytest.mark.parametrize(("operators", "depth"), SIZES)
def test_sizes_of_admissible_sets(operators, depth):
    for k, expected in enumerate(SIZES[operators, depth], 1):
        assert Counter(HypospaceBoolean(operators, depth, k).admissible.sum(1).tolist()) == expected
    together = HypospaceBoolean(operators, depth).admissible.sum(1)
    assert Counter(together.tolist()) == sum(map(Counter, SIZES[operators, depth]), Counter())


def test_sizes_of_admissible_sets_with_all_operators():
    sizes = [HypospaceBoolean("full", 2, k).admissible.sum(1) for k in (1, 2, 3, 4)]
    assert [(size.min(), size.max()) for size in sizes[:3]] == [(25, 40), (11, 26), (3, 18)]
    assert Counter(sizes[3].tolist()) == {1: 2, 2: 1, 3: 6, 5: 6, 13: 1}
    together = HypospaceBoolean("full", 2).admissible.sum(1)
    assert (len(together), together.mean()) == (80, pytest.approx(12.188, abs=6e-4))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("x AND y", "y AND x", True),
        ("x AND x", "x", True),
        ("x OR (y OR x)", "x OR y", True),
        ("(x OR NOT y) OR (y OR x)", "y OR (NOT y OR x)", True),
        ("NOT (x OR y)", "NOR(y, x)", True),
        ("NOR(x, x)", "NOT x", True),
        ("NOT (x AND y)", "NOT x OR NOT y", False),
        ("NOT NOT x", "x", False),
        ("x AND (x OR y)", "x", False),
        ("x AND NOT x", "y AND NOT y", False),
        ("x AND (x OR y)", "x OR (x AND y)", False),
    ],
)
def test_which_changes_keep_the_mechanism(one, other, equal):
    assert (mechanistic_key(read_infix(one)) == mechanistic_key(read_infix(other))) is equal


def test_keys_have_the_truth_table_of_their_trees():
    task = HypospaceBoolean("full", 2)
    rng = np.random.default_rng(0)
    for hypothesis, key in enumerate(task.answers):
        tree = task.read_symbols([task.vocabulary[token] for token in task.render(hypothesis, rng)[:-1]])
        assert depth_of(tree) <= 2
        assert [evaluate(tree, x, y) for x in (0, 1) for y in (0, 1)] == task.truth_tables[hypothesis].tolist()
        assert mechanistic_key(tree) == key
        assert read_infix(infix(tree)) == tree


def test_random_forms_are_uniform_over_trees():
    task = HypospaceBoolean("basic", 1)
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(task.spell("x", rng)) for _ in range(3000))
    # x itself, x AND x, x OR x.
    assert set(drawn) == {("x",), ("AND", "x", "x"), ("OR", "x", "x")}
    assert all(abs(count - 1000) < 5 * np.sqrt(3000 * 2 / 9) for count in drawn.values())
    deep = HypospaceBoolean("basic", 2)
    forms = {tuple(deep.spell("x", rng)) for _ in range(300)}
    # OP a b with a and b from the three trees above, for two operators, and x.
    assert len(forms) == 1 + 2 * 9


def test_a_prompt_by_hand():
    task = HypospaceBoolean("basic", 1, 2)
    prompt = task.asked.index(((0, 0), (3, 1)))
    words = [task.vocabulary[token] for token in task.prompt_tokens(prompt)]
    assert words == ["<bos>", "(x=0,y=0)->0", "(x=1,y=1)->1", "<answer>"]
    assert "(x=0, y=0) -> 0\n(x=1, y=1) -> 1" in task.prompt_text(prompt)
    assert task.admissible[prompt].all()
    prompt = task.asked.index(((0, 0), (1, 1)))
    assert [task.hypotheses[i] for i in np.flatnonzero(task.admissible[prompt])] == ["y", "x OR y"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Expression: OR(x, AND(X, Y))", "(x AND y) OR x"),
        ("Expression: x OR x AND y", "(x AND y) OR x"),
        ("Expression: NOT x", None),  # not in the basic set
        ("Expression: x OR (x AND (x OR y))", None),  # too deep
        ("Expression: x\nExpression: x AND TRUE", None),  # well-formed, against a rule, and the last
        ("Expression: x y", None),
        ("Expression: AND(x)", None),
    ],
)
def test_text(text, name):
    task = HypospaceBoolean("basic", 2)
    outcome = task.parse_text(text)
    assert (None if outcome == -1 else task.hypotheses[outcome]) == name


def test_compact_answers_that_break_a_rule():
    task = HypospaceBoolean("full", 2)

    def parse(answer):
        return task.parse([*tokens_of(task, answer.split()), *task.stop_tokens])

    assert task.hypotheses[parse("AND NOT x y")] == "NOT x AND y"
    assert parse("NOT NOT x") >= 0
    for answer in ("NOT NOT NOT x", "AND x", "x y", "", "NOT", "AND x y y", "(x=0,y=0)->0"):
        assert parse(answer) == -1
