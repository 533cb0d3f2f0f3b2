r"""Arithmetic in text: the tree of an expression with numbers, and its exact value.

A tree is a number, `("-", tree)`, or `(operator, left, right)` with an operator of + - * / ^. A number is an integer,
or a fraction if it is none. Nothing is evaluated as code; sizes are limited before anything is computed.
"""

import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Any

# Far above what an answer needs, far below the recursion limit.
LONGEST_EXPRESSION = 64
LONGEST_NUMBER = 100
LARGEST_EXPONENT = 300
# Bits of the values on the way to a result.
LARGEST_VALUE = 5000

Tree = int | Fraction | tuple
BRACKETS = {"(": ")", "{": "}", "[": "]"}

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_GROUPED = r"\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d{1,3}(?:'\d{3})+|\d{1,3}(?:_\d{3})+|\d+"
_WORD = re.compile(
    r"\s*(?:(?P<whole>\d+) +(?P<top>\d{1,2}) ?/ ?(?P<bottom>\d+)(?! ?[\w/^.,'])"
    rf"|(?P<number>(?:(?:{_GROUPED})(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{{1,4}})?)(?![\w'])"
    r"|(?P<power>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<part>[¼-¾⅐-⅞])|(?P<sign>\\frac(?![a-zA-Z])|\S))",
    re.ASCII,
)
# A part that is one digit needs no braces.
_SHORT_FRACTION = re.compile(r"\\frac\s*(?:(\d)|\{([^{}\\]*)\})\s*(?:(?=\{)|(\d)(?!\d))", re.ASCII)
# An x between operands; 0x10 is a number to the base 16, which is not read.
TIMES = r"(?<=[\d)}\] ])(?<!(?<![\d.])0)[xX](?=[ \d(\\])"
EQUALS = re.compile(r"==?|\b(?:is equal to|equals|is)\b")
_MULTIPLIED = re.compile(TIMES, re.ASCII)


def read_arithmetic(text: str) -> Tree | None:
    r"""The tree of a text that is one expression from its first to its last sign; None if it is none.

    ^ binds closest and groups from the right, then signs, then products and sums, which group from the left. Operands
    are numbers with thousands separators (1,000 or 1 000 or 1'000 or 1_000), decimals and powers of ten (1e3), groups
    in brackets of three kinds, \frac{a}{b}, and an integer with a proper fraction behind it (2 1/2, 2½). x multiplies.
    Expressions of more than 64 words and signs are not read, nor numbers of over 100 digits or exponents beyond 300.
    """
    words = _words(_SHORT_FRACTION.sub(_with_braces, _MULTIPLIED.sub("*", text)))
    if not words:
        return None
    words.reverse()

    def next_is(signs: tuple[str, ...]) -> bool:
        return bool(words) and words[-1] in signs

    def take() -> str | int | Fraction:
        if not words:
            raise ValueError("the expression is not complete")
        return words.pop()

    def total() -> Tree:
        return chain(words, ("+", "-"), lambda: chain(words, ("*", "/"), signed))

    def signed() -> Tree:
        if next_is(("+", "-")):
            return ("-", signed()) if take() == "-" else signed()
        base = operand()
        return (take(), base, signed()) if next_is(("^",)) else base

    def group() -> Tree:
        closing = BRACKETS.get(str(take()))
        tree = total()
        if closing is None or take() != closing:
            raise ValueError("a group is not closed")
        return tree

    def operand() -> Tree:
        if next_is(("\\frac",)):
            take()
            return ("/", group(), group())
        if next_is(("(", "{", "[")):
            return group()
        number = take()
        if isinstance(number, str):
            raise ValueError(f"{number!r} cannot stand here")
        if isinstance(number, int) and words and (isinstance(words[-1], Fraction) or next_is(("\\frac",))):
            part = value(operand())
            if part is None or not 0 < part < 1:
                raise ValueError("an operator is missing")
            return number + part
        return number

    try:
        tree = total()
    except ValueError:
        return None
    return None if words else tree


def chain(words: list, operators: tuple[str, ...], operand: Callable[[], Any]) -> Any:
    """The tree of operands between operators, grouped from the left, at the end of `words`, which are reversed."""
    tree = operand()
    while words and words[-1] in operators:
        tree = (words.pop(), tree, operand())
    return tree


def value(tree: Tree) -> Fraction | None:
    """The exact value; None if it divides by zero, has a power that is not rational, or grows beyond 5000 bits."""
    if not isinstance(tree, tuple):
        return Fraction(tree)
    left, right = value(tree[-2]) if len(tree) == 3 else Fraction(0), value(tree[-1])
    if left is None or right is None:
        return None
    if tree[0] in "+-":
        result = left + right if tree[0] == "+" else left - right
    elif tree[0] == "*":
        result = left * right
    elif tree[0] == "/":
        if not right:
            return None
        result = left / right
    else:
        small = right.denominator == 1 and abs(right) <= LARGEST_EXPONENT
        if not small or _bits(left) * abs(right) > LARGEST_VALUE or (not left and right <= 0):
            return None
        result = left ** int(right)
    return result if _bits(result) <= LARGEST_VALUE else None


def divides_by_zero(tree: Tree) -> bool:
    """Whether a tree without a value has none because it, or a part of it, divides by zero."""
    if not isinstance(tree, tuple):
        return False
    power_of_zero = tree[0] == "^" and value(tree[1]) == 0
    return (tree[0] == "/" and value(tree[2]) == 0) or power_of_zero or any(map(divides_by_zero, tree[1:]))


def _bits(number: Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _with_braces(fraction: re.Match[str]) -> str:
    digit, top, bottom = fraction.groups()
    return rf"\frac{{{digit or top}}}" + (f"{{{bottom}}}" if bottom else "")


def _words(text: str) -> list[str | int | Fraction]:
    """The numbers and signs of a text; none if there are too many, or if a number is too long."""
    words: list[str | int | Fraction] = []
    for match in _WORD.finditer(text):
        if match["sign"]:
            words.append(match["sign"])
        elif match["power"]:
            words += ["^", int(match["power"].translate(_SUPERSCRIPTS))]
        elif match["part"]:
            words.append(Fraction(unicodedata.normalize("NFKC", match["part"]).replace("⁄", "/")))
        else:
            number = _mixed(match) if match["whole"] else _number(match["number"])
            if number is None:
                return []
            words.append(int(number) if number.denominator == 1 else number)
        if len(words) > LONGEST_EXPRESSION:
            return []
    return words


def _number(text: str) -> Fraction | None:
    digits, _, power = re.sub("[, '_]", "", text).lower().partition("e")
    if len(digits) > LONGEST_NUMBER or abs(int(power or 0)) > LARGEST_EXPONENT:
        return None
    return Fraction(digits) * Fraction(10) ** int(power or 0)


def _mixed(match: re.Match[str]) -> Fraction | None:
    whole, top, bottom = (match[part] for part in ("whole", "top", "bottom"))
    if max(len(whole), len(bottom)) > LONGEST_NUMBER or not 0 < int(top) < int(bottom):
        return None
    return int(whole) + Fraction(int(top), int(bottom))
