"""All expressions of given numbers that reach a target.

All expressions of up to four numbers are enumerated. Larger problems are searched from the target: if one side of `left
operator right = target` is an expression of few numbers, the other side must have a certain value. So problems of six
numbers do not need a list of their 793,002 expressions. Values are exact pairs of numerator and denominator, because
`fractions.Fraction` takes several times as long.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from ipsrl.environments.expressions import Form, join, number

ENUMERATED = 4

Numbers = tuple[int, ...]  # sorted
Value = tuple[int, int]  # a reduced fraction with a positive denominator
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
        self.by_value = functools.cache(self._by_value)
        self.with_value = functools.cache(self._with_value)

    def solutions(self, target: int | Fraction) -> frozenset[Form]:
        """The canonical forms with the value `target` that use each number at most as often as it is given."""
        return frozenset().union(*(self.with_value(part, target.as_integer_ratio()) for part in self.parts))

    def _by_value(self, numbers: Numbers) -> dict[Value, frozenset[Form]]:
        """Every form that uses all of the numbers, by its value."""
        if len(numbers) == 1:
            return {(numbers[0], 1): frozenset({number(numbers[0])})}
        found: dict[Value, set[Form]] = {}
        for some, others in _splits(numbers):
            for a, lefts in self.by_value(some).items():
                for b, rights in self.by_value(others).items():
                    for value, operator, swapped in _results(a, b):
                        found.setdefault(value, set()).update(_joined(operator, swapped, lefts, rights))
        return {value: frozenset(forms) for value, forms in found.items()}

    def _with_value(self, numbers: Numbers, target: Value) -> frozenset[Form]:
        if len(numbers) <= ENUMERATED:
            return self.by_value(numbers).get(target, frozenset())
        found: set[Form] = set()
        for some, others in _splits(numbers):
            for a, lefts in self.by_value(some).items():
                for b, operator, swapped in _wanted(a, target):
                    found.update(_joined(operator, swapped, lefts, self.with_value(others, b)))
                if a == target == ZERO:
                    # 0 * b = 0, and 0 / b = 0 if b is not 0.
                    for b, rights in self.by_value(others).items():
                        for operator in "*/" if b != ZERO else "*":
                            found.update(_joined(operator, False, lefts, rights))
        return frozenset(found)


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


def _joined(operator: str, swapped: bool, lefts: frozenset[Form], rights: frozenset[Form]) -> Iterator[Form]:
    if swapped:
        lefts, rights = rights, lefts
    return (join(operator, left, right) for left in lefts for right in rights)
