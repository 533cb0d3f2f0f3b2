"""Arithmetic expressions as text, as trees, and in canonical form.

A tree is an integer, `("-", tree)` for a negative, or `(operator, left, right)`. Two trees are the same expression if
their canonical forms are equal, that is, if they differ only by

- the order and the grouping of sums and products: a + (b + c) = c + (a + b);
- writing a - b as a + (-b), and so a - (b - c) = a - b + c;
- writing a / b as a times the reciprocal of b, and so a / (b / c) = a * c / b;
- moving signs through products: (a - b) * (c - d) = (b - a) * (d - c).

Nothing else is identified: numbers are not computed (2 * 3 is not 6, 2 * 2 is not 2 + 2), products are not expanded,
and nothing cancels (a - a, b / b and 1 * c stay). In other words: replace each number of a tree by its own variable.
Two trees are the same expression if they are the same rational function, up to names of variables of equal numbers.
"""

import random
import re
from collections.abc import Sequence
from typing import TypeGuard

from ipsrl.environments.reading.answer_text import BULLET, SIGN, marker, without_remark
from ipsrl.environments.reading.arithmetic import EQUALS, read_arithmetic, value

OPERATORS = ("+", "-", "*", "/")
LONGEST_NUMBER = 10
# Lines of an answer that goes on below its first line.
LINE = re.compile(rf"(?:{SIGN}|[xX])+")
MARKER = marker("equation", "expression", "solution")

_NAME = re.compile(r"^[a-zA-Z][a-zA-Z ]*(?:=|:)")

Tree = int | tuple

# A form is a minus, 0 or 1, and a body without one. A body is ("number", n), or ("sum", terms, even) of pairs of a body
# (not a sum) and its minus, or ("product", factors, even) of pairs of 0, or 1 for a reciprocal, and a body (not a
# product). Parts are sorted. A body is even if it is its own negative, as 3 - 3 is; then it has no minus.
Body = tuple
Form = tuple[int, Body]


def number(value: int) -> Form:
    """The canonical form of a number."""
    return 0, ("number", value)


def negative(form: Form) -> Form:
    """The form of -x."""
    minus, body = form
    return (0 if is_even(body) else 1 - minus), body


def is_even(body: Body) -> bool:
    """Whether a body is its own negative, up to the names of variables that hold equal numbers."""
    return body[0] != "number" and body[2]


def join(operator: str, left: Form, right: Form) -> Form:
    """The form of `left operator right`."""
    if operator in "+-":
        return _sum(_terms(left) + _terms(right if operator == "+" else negative(right)))
    return _product(left, right, operator == "/")


def canonical(tree: Tree) -> Form:
    """The common form of all trees of the same expression."""
    if isinstance(tree, int):
        return number(tree)
    if len(tree) == 2:
        return negative(canonical(tree[1]))
    return join(tree[0], canonical(tree[1]), canonical(tree[2]))


def _terms(form: Form) -> tuple[tuple[Body, int], ...]:
    minus, body = form
    if body[0] != "sum":
        return ((body, minus),)
    return _flipped(body[1]) if minus else body[1]


def _flipped(terms: tuple[tuple[Body, int], ...]) -> tuple[tuple[Body, int], ...]:
    return tuple((body, 0 if is_even(body) else 1 - minus) for body, minus in terms)


def _sum(terms: tuple[tuple[Body, int], ...]) -> Form:
    plain, flipped = tuple(sorted(terms)), tuple(sorted(_flipped(terms)))
    # The smaller of the two begins with a term without a minus, if either does.
    if plain <= flipped:
        return 0, ("sum", plain, plain == flipped)
    return 1, ("sum", flipped, False)


def _product(left: Form, right: Form, inverse: bool) -> Form:
    (minus, body), (other_minus, other) = left, right
    factors = _factors(body) + tuple((reciprocal ^ inverse, factor) for reciprocal, factor in _factors(other))
    even = is_even(body) or is_even(other)
    return (0 if even else minus ^ other_minus), ("product", tuple(sorted(factors)), even)


def _factors(body: Body) -> tuple[tuple[int, Body], ...]:
    return body[1] if body[0] == "product" else ((0, body),)


def numbers_of(tree: Tree) -> list[int]:
    """The numbers in the order of the text."""
    return [tree] if isinstance(tree, int) else [value for part in tree[1:] for value in numbers_of(part)]


def as_tree(form: Form, rng: random.Random | None = None) -> Tree:
    """A tree of a form, without a negative sign: the canonical one without `rng`, else a random one.

    Raises:
      ValueError: the form needs a negative sign, such as -(2 + 3).
    """
    minus, body = form
    if not _needs_no_sign(minus, body):
        raise ValueError("this expression cannot be written without a negative sign")
    return _tree(minus, body, rng)


def _needs_no_sign(minus: int, body: Body) -> bool:
    """Whether a form can be written with only the four binary operators."""
    # A body without its minus always can: the first term of a sum has no minus.
    if not minus or is_even(body):
        return True
    if body[0] == "number":
        return False
    if body[0] == "sum":
        return any(_needs_no_sign(1 - of_term, term) for term, of_term in body[1])
    return any(_needs_no_sign(1, factor) for _, factor in body[1])


def _tree(minus: int, body: Body, rng: random.Random | None) -> Tree:
    if body[0] == "number":
        return body[1]
    if body[0] == "sum":
        return _chain([(minus ^ of_term, term) for term, of_term in body[1]], "+", rng)
    # Minuses of factors come in pairs, or one of them is the minus of the product.
    movable = [i for i, (_, factor) in enumerate(body[1]) if _needs_no_sign(1, factor)]
    moved = {i for i in movable if rng is not None and rng.random() < 0.5}
    if not body[2] and len(moved) % 2 != minus:
        moved ^= set(movable[:1])
    return _chain([(reciprocal, int(i in moved), part) for i, (reciprocal, part) in enumerate(body[1])], "*", rng)


def _chain(parts: list[tuple], operator: str, rng: random.Random | None) -> Tree:
    """A tree of a sum of (minus, body), or of a product of (reciprocal, minus, body)."""
    inverse = "-" if operator == "+" else "/"

    def forward(part: tuple) -> bool:
        """Whether a part can be first without change."""
        return _needs_no_sign(*part) if operator == "+" else not part[0]

    def turned(part: tuple) -> tuple:
        return (1 - part[0], *part[1:])

    if len(parts) == 1:
        return _tree(*parts[0][-2:], rng)
    leading = [part for part in parts if forward(part)]
    if rng is None:
        # Added terms come before subtracted ones.
        tree = _chain(leading[:1], operator, rng)
        for part in leading[1:]:
            tree = (operator, tree, _chain([part], operator, rng))
        for part in parts:
            if not forward(part):
                tree = (inverse, tree, _chain([turned(part)], operator, rng))
        return tree
    lead = rng.choice(leading)
    others = [part for part in parts if part is not lead]
    rng.shuffle(others)
    size = rng.randint(1, len(others))
    left, right = [lead, *others[size:]], others[:size]
    senses = [operator] * any(map(forward, right)) + [inverse] * any(forward(turned(part)) for part in right)
    sense = rng.choice(senses)
    right = _chain(right if sense == operator else [turned(part) for part in right], operator, rng)
    left = _chain(left, operator, rng)
    # Sums and products may be written from either side.
    return (operator, right, left) if sense == operator and rng.random() < 0.5 else (sense, left, right)


def prefix(tree: Tree | str) -> list[str]:
    """A tree without negative signs in Polish notation; its leaves may be names."""
    return [tree[0], *(word for part in tree[1:] for word in prefix(part))] if isinstance(tree, tuple) else [str(tree)]


def read_prefix(words: Sequence[str]) -> Tree | None:
    """The tree of words in Polish notation, or None if they are not well-formed."""
    stack: list[Tree] = []
    for word in reversed(words):
        if word in OPERATORS:
            if len(stack) < 2:
                return None
            stack.append((word, stack.pop(), stack.pop()))
        elif word.isdecimal():
            stack.append(int(word))
        else:
            return None
    return stack[0] if len(stack) == 1 else None


def infix(tree: Tree) -> str:
    """The tree in infix notation, without superfluous parentheses."""
    return _infix(tree)[0]


def _infix(tree: Tree) -> tuple[str, int]:
    """The text and its precedence: 1 for sums, 2 for products, 3 for numbers."""
    if isinstance(tree, int):
        return str(tree), 3
    binding = 1 if tree[0] in "+-" else 2
    if len(tree) == 2:
        text, inner = _infix(tree[1])
        return f"-{text}" if inner > 1 else f"-({text})", 1
    (left, left_binding), (right, right_binding) = _infix(tree[1]), _infix(tree[2])
    # A right operand of - or /, or one of equal precedence right of + or *, needs parentheses to keep its own tree.
    left = left if left_binding >= binding else f"({left})"
    right = right if right_binding > binding else f"({right})"
    return f"{left} {tree[0]} {right}", binding


def read_expression(text: str) -> Tree | None:
    """The tree of a whole answer in plain spelling (`answer_text`), or None if it is none.

    It is an expression with the four operators, or an equation: sides of equal value, behind a name or not, of which
    the first that is no bare number is the answer. Remarks behind it are left out. Numbers are integers of at most 10
    digits; `arithmetic.read_arithmetic` states the rest.
    """
    # A dash with a blank behind it is no sign here but a bullet.
    line = BULLET.sub("", " ".join(map(without_remark, text.split("\n"))), count=1)
    sides = EQUALS.split(_NAME.sub("", line, count=1))
    trees = [tree for side in sides if (tree := read_arithmetic(side)) is not None]
    if len(trees) < len(sides):
        return None
    if len(trees) > 1 and (len(values := {value(tree) for tree in trees}) > 1 or None in values):
        return None
    tree = next((tree for tree in trees if isinstance(tree, tuple)), trees[0])
    return tree if _is_plain(tree) else None


def _is_plain(tree: object) -> TypeGuard[Tree]:
    """Whether a tree has no operators but the four, and only integers that are not too long."""
    if isinstance(tree, tuple):
        return tree[0] in OPERATORS and all(map(_is_plain, tree[1:]))
    return isinstance(tree, int) and len(str(tree)) <= LONGEST_NUMBER
