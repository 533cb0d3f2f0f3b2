"""Canonical forms: what is the same expression, by rewriting and by algebra; and what texts are read as."""

import itertools
import random
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments import expressions, numeric_answers
from ipsrl.environments.expressions import (
    as_tree,
    canonical,
    evaluate,
    infix,
    join,
    negative,
    numbers_of,
    prefix,
    read_expression,
    read_prefix,
)

TREES = st.recursive(
    st.integers(1, 4),
    lambda part: st.one_of(st.tuples(st.just("-"), part), st.tuples(st.sampled_from("+-*/"), part, part)),
    max_leaves=7,
)


def all_trees(numbers):
    """Every tree of binary operators that uses each of the numbers once."""
    if len(numbers) == 1:
        yield numbers[0]
    for size in range(1, len(numbers)):
        for chosen in itertools.combinations(range(len(numbers)), size):
            some = [numbers[i] for i in chosen]
            others = [numbers[i] for i in range(len(numbers)) if i not in chosen]
            for left, right in itertools.product(all_trees(some), all_trees(others)):
                yield from ((operator, left, right) for operator in "+-*/")


def as_function(tree, points):
    """The values of a tree whose numbers are names of variables, at some points: they tell rational functions apart."""

    def at(tree, point):
        if isinstance(tree, int):
            return point[tree]
        left, right = (at(part, point) for part in tree[1:])
        return {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[tree[0]]

    return tuple(at(tree, point) for point in points)


def random_points(variables, seed=0):
    rng = random.Random(seed)
    return [{name: Fraction(rng.randint(10**6, 10**7), rng.randint(10**3, 10**4)) for name in variables} for _ in "ab"]


@pytest.mark.parametrize(("count", "inequivalent"), [(1, 1), (2, 6), (3, 68), (4, 1170)])
def test_different_numbers_have_the_same_form_exactly_where_the_rational_functions_are_equal(count, inequivalent):
    # The counts are the sequence A140606 of the On-Line Encyclopedia of Integer Sequences.
    trees = list(all_trees(range(1, count + 1)))
    points = random_points(range(1, count + 1))
    pairs = {(canonical(tree), as_function(tree, points)) for tree in trees}
    forms, functions = zip(*pairs, strict=True)
    assert len(pairs) == len(set(forms)) == len(set(functions)) == inequivalent


@pytest.mark.parametrize("values", [(5, 5), (5, 5, 3), (5, 5, 5), (5, 5, 3, 3), (5, 5, 5, 3)], ids=str)
def test_equal_numbers_may_change_places(values):
    # Forms are equal exactly where a change of places makes the functions of the places equal.
    places = range(len(values))
    swaps = [p for p in itertools.permutations(places) if all(values[i] == values[p[i]] for i in places)]
    (point,) = random_points(places)[:1]
    points = [{i: point[p[i]] for i in places} for p in swaps]

    def labelled(tree):
        return values[tree] if isinstance(tree, int) else (tree[0], *map(labelled, tree[1:]))

    pairs = {(canonical(labelled(tree)), frozenset(as_function(tree, points))) for tree in all_trees(list(places))}
    forms, orbits = zip(*pairs, strict=True)
    assert len(pairs) == len(set(forms)) == len(set(orbits))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1 + (2 + 3)", "3 + 2 + 1", True),
        ("1 - (2 - 3)", "1 + 3 - 2", True),
        ("1 / (2 / 3)", "1 * 3 / 2", True),
        ("-2 + 3", "3 - 2", True),
        ("(1 - 2) * (3 - 4)", "(2 - 1) * (4 - 3)", True),
        ("1 / (2 - 3)", "-1 / (3 - 2)", True),
        ("4 + 2 * (3 - 3)", "4 - 2 * (3 - 3)", True),
        ("4 + 2 / (3 - 3 * 1)", "4 - 2 / (3 - 3 * 1)", False),
        ("(1 - 2) * 3", "(2 - 1) * 3", False),
        ("2 * 3", "6", False),
        ("2 * 2", "2 + 2", False),
        ("2 * (3 + 4)", "2 * 3 + 2 * 4", False),
        ("5 - 5 + 1", "1", False),
        ("1 * 5", "5 / 1", False),
        ("5 / 5 * 1", "1", False),
    ],
)
def test_what_is_identified(one, other, same):
    assert (canonical(read_expression(one)) == canonical(read_expression(other))) is same


def rewritten(tree, rng):
    """A tree that differs by rules that do not change the expression."""
    if isinstance(tree, int):
        return tree
    parts = [rewritten(part, rng) for part in tree[1:]]
    if len(parts) == 1:
        # -(a * b) = (-a) * b, -(a - b) = b - a
        (inner,) = parts
        if not isinstance(inner, int) and len(inner) == 3 and rng.random() < 0.7:
            operator, left, right = inner
            return (
                (operator, ("-", left), right) if operator in "*/" else ("-", ("-", left), inverse_of(operator, right))
            )
        return ("-", inner)
    (operator, (left, right)), choice = (tree[0], parts), rng.random()
    if operator in "+*" and choice < 0.4:
        return (operator, right, left)
    if operator in "+-" and choice < 0.7:
        return ("-", left, ("-", right)) if operator == "+" else ("+", ("-", right), left)
    # a op (b op c) = (a op b) op c
    group = "+-" if operator in "+-" else "*/"
    if not isinstance(right, int) and len(right) == 3 and right[0] in group:
        flipped = {group[0]: group[1], group[1]: group[0]}
        inner = right[0] if operator == group[0] else flipped[right[0]]
        return (inner, (operator, left, right[1]), right[2])
    return (operator, left, right)


def inverse_of(operator, tree):
    return ("-", tree) if operator == "-" else tree


@settings(deadline=None, max_examples=300)
@given(TREES, st.randoms(use_true_random=False))
def test_rewriting_changes_neither_form_nor_value(tree, rng):
    other = tree
    for _ in range(4):
        other = rewritten(other, rng)
    assert canonical(other) == canonical(tree)
    assert sorted(numbers_of(other)) == sorted(numbers_of(tree))
    try:
        value = evaluate(tree)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            evaluate(other)
    else:
        assert evaluate(other) == value


@settings(deadline=None, max_examples=300)
@given(TREES)
def test_written_trees_are_read_back(tree):
    assert canonical(read_expression(infix(tree))) == canonical(tree)
    assert negative(negative(canonical(tree))) == canonical(tree)


@settings(deadline=None, max_examples=300)
@given(TREES, st.integers(0, 2**32 - 1))
def test_every_tree_of_a_form_has_that_form(tree, seed):
    form = canonical(tree)
    try:
        shown = as_tree(form)
    except ValueError:
        # Only what is negative whatever its numbers are needs the sign.
        assert as_tree(negative(form))
        assert "-" not in infix(as_tree(negative(form)))
        return
    for other in (shown, as_tree(form, random.Random(seed))):
        assert canonical(other) == form
        assert read_prefix(prefix(other)) == other
        assert canonical(read_expression(infix(other))) == form


@pytest.mark.parametrize("text", ["1 + 2 + 3", "1 - 2 + 3", "1 / 2 * 3", "(1 - 2) * (3 - 4)", "4 - 2 * (1 - 3)"])
def test_random_trees_are_all_trees_of_a_form(text):
    tree = read_expression(text)
    form = canonical(tree)
    expected = {other for other in all_trees(numbers_of(tree)) if canonical(other) == form}
    assert {as_tree(form, random.Random(seed)) for seed in range(2000)} == expected


def test_joining_forms_is_the_form_of_the_joined_tree():
    for operator, left, right in itertools.product("+-*/", all_trees([1, 2]), all_trees([1, 3])):
        assert join(operator, canonical(left), canonical(right)) == canonical((operator, left, right))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", ("+", 1, ("*", 2, 3))),
        ("8 - 4 - 2", ("-", ("-", 8, 4), 2)),
        ("8/4/2", ("/", ("/", 8, 4), 2)),
        ("(1+2)*3 = 9", ("*", ("+", 1, 2), 3)),
        ("(1+2)*3</answer> I hope", ("*", ("+", 1, 2), 3)),
        ("\n\n  **(1 + 2) × 3**", ("*", ("+", 1, 2), 3)),
        ("1 ÷ 2 − 3.", ("-", ("/", 1, 2), 3)),
        (r"\frac{1 + 2}{3} \times 4 = 4}", ("*", ("/", ("+", 1, 2), 3), 4)),
        (r"\( 2 \cdot \left(3 + 4\right) \)", ("*", 2, ("+", 3, 4))),
        ("$2 x 3$", ("*", 2, 3)),
        ("[2 * 3], or so", ("*", 2, 3)),
        ("2 * -3", ("*", 2, ("-", 3))),
        ("+2", 2),
        ("`2 * 3`, or 3 * 2", ("*", 2, 3)),
        ("", None),
        ("2 *", None),
        ("2 ** 3", None),
        ("2 ^ 3", None),
        ("2 3", None),
        ("(2", None),
        ("(2 * 3]", None),
        ("2 // 3", None),
        ("2.5 * 4", None),
        ("2,500", None),
        ("x * 3", None),
        ("3 apples", None),
        ("3 * 8 is 24", None),
        ("12345678901", None),
        ("２ * 3", None),
        ("__import__('os')", None),
    ],
)
def test_texts(text, tree):
    assert read_expression(text) == tree


def test_long_texts_are_no_expressions():
    assert read_expression("+".join("1" * 32)) is not None
    assert read_expression("+".join("1" * 33)) is None
    assert read_expression("(" * 31 + "1" + ")" * 31) == 1
    assert read_expression("1 + 2" + " " * 500 + "* 3") is None
    assert read_expression("1 + 2 = " + "3" * 500) == ("+", 1, 2)


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(max_size=4), st.sampled_from([*"0123456789+-*/(){}[]=x.", r"\frac"]))).map("".join))
def test_any_text_is_read(text):
    tree = read_expression(text)
    assert tree is None or canonical(tree)


@pytest.mark.parametrize("words", [["+"], ["+", "1"], ["1", "2"], [], ["x"], ["+", "1", "2", "3"], ["="]])
def test_malformed_prefix(words):
    assert read_prefix(words) is None


@pytest.mark.parametrize("module", [expressions, numeric_answers])
def test_reading_needs_the_standard_library_alone(module):
    source = Path(module.__file__).read_text()
    imported = [line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names
