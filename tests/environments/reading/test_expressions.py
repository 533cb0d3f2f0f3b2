import itertools
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.reading import answer_boxes, answer_text, answer_words, arithmetic, expressions, numeric_answers
from ipsrl.environments.reading.answer_text import last_answer
from ipsrl.environments.reading.expressions import (
    LINE,
    MARKER,
    as_tree,
    canonical,
    infix,
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


def with_signs(tree):
    """The tree with every choice of negative signs before its parts."""
    plain = [tree]
    if not isinstance(tree, int):
        plain = [(tree[0], left, right) for left in with_signs(tree[1]) for right in with_signs(tree[2])]
    return [*plain, *(("-", part) for part in plain)]


# Different rational functions of these have different values: otherwise there would be fewer values than forms below.
GENERIC = (101, 1009, 10007, 100003)


@pytest.mark.parametrize(("count", "inequivalent"), [(1, 1), (2, 6), (3, 68), (4, 1170)])
def test_different_numbers_have_the_same_form_exactly_where_the_rational_functions_are_equal(count, inequivalent):
    # The counts are the sequence A140606 of the On-Line Encyclopedia of Integer Sequences.
    pairs = {(canonical(tree), arithmetic.value(tree)) for tree in all_trees(GENERIC[:count])}
    forms, functions = zip(*pairs, strict=True)
    assert len(pairs) == len(set(forms)) == len(set(functions)) == inequivalent


@pytest.mark.parametrize("values", [(1, 2, 3), (5, 5), (5, 5, 3), (5, 5, 5), (5, 5, 3, 3), (5, 5, 5, 3)], ids=str)
def test_equal_numbers_may_change_places_and_signs_may_move(values):
    # Forms are equal exactly where a change of places makes the functions of the places equal.
    places = range(len(values))
    swaps = [p for p in itertools.permutations(places) if all(values[i] == values[p[i]] for i in places)]

    def labelled(tree, names):
        return names[tree] if isinstance(tree, int) else (tree[0], *(labelled(part, names) for part in tree[1:]))

    def orbit(tree):
        return frozenset(arithmetic.value(labelled(tree, [GENERIC[place] for place in swap])) for swap in swaps)

    trees = list(all_trees(list(places)))
    if len(values) < 4:
        trees = itertools.chain(*map(with_signs, trees))
    pairs = {(canonical(labelled(tree, values)), orbit(tree)) for tree in trees}
    forms, orbits = zip(*pairs, strict=True)
    assert len(pairs) == len(set(forms)) == len(set(orbits))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("(1 - 2) * (3 - 4)", "(2 - 1) * (4 - 3)", True),
        ("-(-2)", "2", True),
        ("4 + 2 * (3 - 3)", "4 - 2 * (3 - 3)", True),
        ("4 + 2 / (3 - 3 * 1)", "4 - 2 / (3 - 3 * 1)", False),
        ("2 * 3", "6", False),
        ("2 * 2", "2 + 2", False),
        ("2 * (3 + 4)", "2 * 3 + 2 * 4", False),
        ("5 - 5 + 1", "1", False),
        ("5 / 5 * 1", "1", False),
    ],
)
def test_what_is_identified(one, other, same):
    assert (canonical(read_expression(one)) == canonical(read_expression(other))) is same


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


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", ("+", 1, ("*", 2, 3))),
        ("8 - 4 - 2", ("-", ("-", 8, 4), 2)),
        ("8/4/2", ("/", ("/", 8, 4), 2)),
        ("(1+2)*3</answer> I hope", ("*", ("+", 1, 2), 3)),
        ("\n\n  **(1 + 2) × 3**", ("*", ("+", 1, 2), 3)),
        (r"\frac{1 + 2}{3} \times 4 = 4", ("*", ("/", ("+", 1, 2), 3), 4)),
        (r"\( 2 \cdot \left(3 + 4\right) \)", ("*", 2, ("+", 3, 4))),
        ("$2 x 3$", ("*", 2, 3)),
        ("2 * -3", ("*", 2, ("-", 3))),
        ("+2", 2),
        ("2,500", 2500),
        ("２ * 3", ("*", 2, 3)),
        ("`2 * 3`, or 3 * 2", None),
        ("", None),
        ("2 3", None),
        ("9  6 / 2", None),
        ("(2 * 3]", None),
        ("2.5 * 4", None),
        ("x * 3", None),
        ("3 apples", None),
        ("12345678901", None),
    ],
)
def test_texts(text, tree):
    assert last_answer(MARKER, LINE, read_expression, f"Answer: {text}") == tree


def test_long_texts_are_no_expressions():
    assert read_expression("+".join("1" * 32)) is not None
    assert read_expression("+".join("1" * 33)) is None
    assert read_expression("(" * 31 + "1" + ")" * 31) == 1
    assert read_expression("1 + 2 = " + "3" * 500) is None


@pytest.mark.parametrize("words", [["+"], ["+", "1"], ["1", "2"], [], ["x"], ["+", "1", "2", "3"], ["="]])
def test_malformed_prefix(words):
    assert read_prefix(words) is None


@pytest.mark.parametrize("module", [answer_boxes, answer_text, answer_words, arithmetic, expressions, numeric_answers])
def test_reading_needs_the_standard_library_alone(module):
    source = Path(module.__file__).read_text()
    imported = [line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))]
    ours = {
        f"ipsrl.environments.reading.{name}" for name in ("answer_boxes", "answer_text", "answer_words", "arithmetic")
    }
    assert {name.split(".")[0] for name in set(imported) - ours} <= sys.stdlib_module_names
