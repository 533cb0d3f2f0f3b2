"""All expressions of given numbers that reach a target.

All values of up to four numbers are enumerated, with the ways to reach them; expressions are made only for a target.
Larger problems are searched from the target: if one side of `left operator right = target` is an expression of few
numbers, the other side must have a certain value. So problems of six numbers do not need a list of their 793,002
expressions. Values are exact pairs of numerator and denominator: `fractions.Fraction` takes several times as long.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from ipsrl.environments.reading.expressions import Form, join, number

ENUMERATED = 4

Numbers = tuple[int, ...]  # sorted
Value = tuple[int, int]  # a reduced fraction with a positive denominator
Side = tuple[Numbers, Value]
Way = tuple[str, Side, Side]  # operator, left, right
ZERO = (0, 1)


class Solver:
    """Solves problems with the same numbers, and caches the solutions of their parts.

    Forms that need a leading negative sign, such as -(2 + 3), are not searched: their values are negative.

    Args:
      numbers: positive numbers.
      use_all: whether a solution must use all of them.
    """

    def __init__(self, numbers: Sequence[int], use_all: bool):
        numbers = tuple(sorted(numbers))
        self.parts = {numbers} if use_all else {part for pair in _splits(numbers) for part in pair} | {numbers}
        self.ways = functools.cache(self._ways)
        self.with_value = functools.cache(self._with_value)

    def solutions(self, target: int | Fraction) -> frozenset[Form]:
        """The canonical forms with the value `target` that use each number at most as often as it is given."""
        return frozenset().union(*(self.with_value(part, target.as_integer_ratio()) for part in self.parts))

    def _with_value(self, numbers: Numbers, target: Value) -> frozenset[Form]:
        """Every form that uses all of the numbers and has this value."""
        if len(numbers) == 1:
            return frozenset({number(numbers[0])} if target == (numbers[0], 1) else ())
        known = len(numbers) <= ENUMERATED
        found: set[Form] = set()
        for operator, left, right in self.ways(numbers).get(target, ()) if known else self._ways_to(numbers, target):
            if rights := self.with_value(*right):
                found.update(join(operator, form, other) for form in self.with_value(*left) for other in rights)
        return frozenset(found)

    def _ways(self, numbers: Numbers) -> dict[Value, list[Way]]:
        """Every value of all of the numbers, and how it is reached; a number by itself needs no way."""
        if len(numbers) == 1:
            return {(numbers[0], 1): []}
        found: dict[Value, list[Way]] = {}
        for some, others in _splits(numbers):
            for a in self.ways(some):
                for b in self.ways(others):
                    for value, operator, swapped in _results(a, b):
                        found.setdefault(value, []).append(_way(operator, swapped, (some, a), (others, b)))
        return found

    def _ways_to(self, numbers: Numbers, target: Value) -> Iterator[Way]:
        """The ways to a value of many numbers in which the longer side could have the value that it must have."""
        for some, others in _splits(numbers):
            for a in self.ways(some):
                for b, operator, swapped in _wanted(a, target):
                    yield _way(operator, swapped, (some, a), (others, b))
                if a == target == ZERO:
                    # 0 * b = 0, and 0 / b = 0 if b is not 0.
                    for b in self.ways(others):
                        for operator in "*/" if b != ZERO else "*":
                            yield _way(operator, False, (some, a), (others, b))


def _splits(numbers: Numbers) -> frozenset[tuple[Numbers, Numbers]]:
    """Every way to divide numbers into two parts, in one order: the shorter part first."""
    splits = set()
    for size in range(1, len(numbers) // 2 + 1):
        for some in itertools.combinations(numbers, size):
            others = tuple(sorted((Counter(numbers) - Counter(some)).elements()))
            if (others, some) not in splits:
                splits.add((some, others))
    return frozenset(splits)


def _results(a: Value, b: Value) -> Iterator[tuple[Value, str, bool]]:
    """Results of the operators on two values: value, operator, and whether b is on the left."""
    yield _plus(a, b), "+", False
    yield _plus(a, (-b[0], b[1])), "-", False
    yield _plus(b, (-a[0], a[1])), "-", True
    yield _over(a, (b[1], b[0])), "*", False
    if b != ZERO:
        yield _over(a, b), "/", False
    if a != ZERO:
        yield _over(b, a), "/", True


def _wanted(a: Value, target: Value) -> Iterator[tuple[Value, str, bool]]:
    """Values b that give `target` with a, except a = target = 0 in products: b, operator, whether b is on the left."""
    yield _plus(target, (-a[0], a[1])), "+", False
    yield _plus(a, (-target[0], target[1])), "-", False
    yield _plus(target, a), "-", True
    if a != ZERO:
        yield _over(target, a), "*", False
        yield _over(target, (a[1], a[0])), "/", True
        if target != ZERO:
            yield _over(a, target), "/", False


def _plus(a: Value, b: Value) -> Value:
    top, bottom = a[0] * b[1] + b[0] * a[1], a[1] * b[1]
    divisor = math.gcd(top, bottom)
    return top // divisor, bottom // divisor


def _over(a: Value, b: tuple[int, int]) -> Value:
    """a / b, where the denominator of b may carry its sign."""
    top, bottom = a[0] * b[1], a[1] * b[0]
    divisor = math.gcd(top, bottom) if bottom > 0 else -math.gcd(top, bottom)
    return top // divisor, bottom // divisor


def _way(operator: str, swapped: bool, side: Side, other: Side) -> Way:
    return (operator, other, side) if swapped else (operator, side, other)
