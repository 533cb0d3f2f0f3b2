"""Exact numbers in text: reads the number that an answer gives. docs/answers.md states the rule."""

import re
from fractions import Fraction

from ipsrl.environments.reading.answer_boxes import NOT_ANOTHER, without_another
from ipsrl.environments.reading.answer_text import (
    LONGEST_ANSWER,
    SIGN,
    WITHDRAWN,
    last_answer,
    marker,
    plain_lines,
    read_lines,
    without_remark,
    without_thoughts,
)
from ipsrl.environments.reading.answer_words import (
    SCALE_WORDS,
    harmless_behind_box,
    is_name,
    is_quantity,
    is_unit,
    without_introduction,
)
from ipsrl.environments.reading.arithmetic import EQUALS, TIMES, read_arithmetic, value

_MARKER = marker("result", signs="####")
_LINE = re.compile(rf"(?:{SIGN})+")
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WITHDRAWN = re.compile(rf"{WITHDRAWN.pattern}|(?:{'|'.join(SCALE_WORDS)})s?\b", re.IGNORECASE)
_CURRENCY = re.compile(r"[€£¥₹]|\b(?:USD|EUR|GBP|US)(?=[ \d.-])")
_COLON = re.compile(r"(?<=[a-z)]) *:", re.IGNORECASE)
# Letters that belong to a number, and the first that does not.
_LETTER = re.compile(rf"\\frac|\d[eE][-+]?\d|{TIMES}|(?P<unit>[a-zA-Z%°¢])", re.ASCII)
_IN_PARENTHESES = re.compile(r"[ ,;]*\(([^()]*)\)")
_AT_THE_END = re.compile(r"[ ,;]+\(([^()]*)\)$")
_REMARK_WORD = re.compile(r"(?<![\\a-z])[a-z]{2,}(?:['-][a-z]+)*", re.IGNORECASE)
# Before numbers in parentheses; "(add 2)" and "(per 100)" give another number.
_REASONS = frozenset(
    ("since", "because", "as", "using", "where", "which", "check", "rounded", "at", "on", "for", "from")
)
# The choice that is right.
_LABEL = re.compile(r"\([A-H]\) +(?=\S)")
_NOT_ANOTHER = re.compile(rf"{NOT_ANOTHER.pattern}[.!]?\Z")
_SENTENCES = re.compile(
    r"(?<=[A-Za-z)*$][.!?]) +|(?<=\d[.!?]) +(?=[$*_`\"(\\]*[A-Za-z])|"
    r"[,;] +(?=(?:so|thus|hence|therefore)\b|[A-Z][a-z]+[ :])|; +(?=[a-z]{2})"
)


def read_number(text: str) -> Fraction | None:
    r"""The number that an answer gives, exactly, or None if there is none.

    It stands after the last "####", "answer:", "answer is", "result:" or `\boxed{`, or on the last line of a text
    without any of these. It may be closed arithmetic, whose exact value it then is, or the last side of an equation.
    Words may stand before a verb, a colon or an equals sign in front of it, a known unit and a remark behind it.
    Currencies and percent signs are units: 50% is 50.
    """
    text = without_thoughts(text)
    if _MARKER.search(text):
        return last_answer(_MARKER, _LINE, read_value, text, _WITHDRAWN)
    last_line = text.rstrip().rpartition("\n")[2]
    if len(last_line) > LONGEST_ANSWER:
        return None
    sentence = _SENTENCES.split(last_line)[-1]
    return read_lines(plain_lines(sentence if re.search(r"\d", sentence) else last_line), read_value)


def read_value(text: str) -> Fraction | None:
    """The value of a whole answer in plain spelling."""
    line = text.replace("\n", " ")
    other = _NOT_ANOTHER.search(line)
    number = _value_with_remark(line[: other.start()] if other else line)
    return None if other and without_another(other[0].rstrip(".!"), number, _value_with_remark) else number


def _value_with_remark(line: str) -> Fraction | None:
    """The value of an answer with or without remarks."""
    answer = without_remark(line)
    remark = _IN_PARENTHESES.match(line, len(answer)) or _AT_THE_END.search(answer)
    number = _value_of(answer[: remark.start()] if remark else answer)
    if remark and (number is not None or remark.start() == len(answer)):
        return number if _leaves(number, remark[1]) else None
    return _value_of(answer)


def _leaves(number: Fraction | None, remark: str) -> bool:
    """Whether parentheses behind a number hold its unit, words that change nothing, or how it was computed."""
    words = [word.lower() for word in _REMARK_WORD.findall(remark)]
    if is_unit(_words(remark)):
        return True
    if words and re.search("[0-9]", remark) and words[0] not in _REASONS:
        return False
    return harmless_behind_box(words) if words else read_value(remark) == number


def _value_of(text: str) -> Fraction | None:
    """The value of an answer without remarks."""
    sides = EQUALS.split(_COLON.sub("=", _CURRENCY.sub(" ", text)))
    *sides, last = (without_introduction(side.strip()) for side in sides)
    if not all(is_name(side) or _quantity(side) is not None for side in sides[sides[:1] == [""] :]):
        return None
    return _quantity(_LABEL.sub("", last, count=1) if _LABEL.match(last) else last)


def _quantity(text: str) -> Fraction | None:
    """The value of arithmetic with or without a unit."""
    text = text.strip()
    start = next((match.start() for match in _LETTER.finditer(text) if match["unit"]), len(text))
    # A stroke before a unit means "per".
    tree = read_arithmetic(text[:start].rstrip(" /") if start < len(text) else text)
    number = None if tree is None else value(tree)
    if number is None:
        return None
    unit = text[start:]
    if unit[:1] in ("%", "°", "¢"):
        unit = unit[1:].lstrip().removeprefix("C").removeprefix("F") if unit[0] == "°" else unit[1:]
    elif len(re.split(r"[^a-z]", unit, maxsplit=1, flags=re.IGNORECASE)[0]) == 1 and text[start - 1] not in " /":
        # 2k and 2m may be thousands and millions, 2x and 2i are products.
        return None
    words = _words(unit)
    while words and words[0].lower() in _SCALES:
        number *= _SCALES[words.pop(0).lower()]
    return number if is_quantity(words) else None


def _words(text: str) -> list[str]:
    return re.findall(r"[^ /-]+", text)
