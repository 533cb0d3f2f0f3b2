"""Exact numbers in text: reads the number that an answer gives. docs/answers.md states the rule.

This module needs only the standard library and two modules like it: the processes that read answers import it.
"""

import re
from fractions import Fraction

from ipsrl.environments.answer_text import (
    LONGEST_ANSWER,
    SIGN,
    last_answer,
    marker,
    plain_lines,
    read_lines,
    without_remark,
    without_thoughts,
)
from ipsrl.environments.arithmetic import read_arithmetic, value

_MARKER = marker("result", signs="####")
_LINE = re.compile(rf"(?:{SIGN})+")
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_CURRENCY = re.compile(r"[€£¥₹]|\b(?:USD|EUR|GBP|US)(?=[ \d.-])")
_COLON = re.compile(r"(?<=[a-z)]) *:", re.IGNORECASE)
_EQUALS = re.compile(r"==?|\b(?:is equal to|equals|is)\b")
# What a value is said to be of: words, the last of which may be a variable with an index.
_NAME = re.compile(r"(?:[a-z][a-z'-]*,? +)*[a-z](?:[a-z'-]*|_?\d)", re.IGNORECASE)
_VERB = re.compile(
    r"(?:[a-z][a-z'-]*,? +)+(?:ha[sd]|have|are|was|were|makes?|made|costs?|needs?|takes?|gets?|earns?|pays?|sold) +",
    re.IGNORECASE,
)
# Letters that belong to a number, and the first that does not.
_LETTER = re.compile(r"\\frac|\d[eE][-+]?\d|(?<=[\d)}\] ])[xX](?=[ \d(\\])|(?P<unit>[a-zA-Z%°¢])", re.ASCII)
_UNIT = re.compile(r"(?:[a-z][a-z']+\.?|[amgshl])(?:\^\{?[23]\}?|[²³])?", re.IGNORECASE)
_NEGATION = frozenset(["not", "no", "never", "cannot", "isn't", "aren't", "don't", "doesn't", "wasn't", "unknown"])
# Each makes another number of the one before it, or puts another beside it.
_WORDS_THAT_CHANGE_A_NUMBER = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety dozen dozens score gross lakh lakhs crore
    hundred hundreds thousand thousands million millions billion billions trillion trillions bn mn mio mil half halves
    third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths
    tenth tenths hundredth hundredths thousandth thousandths st nd rd th plus minus times divided multiplied over or and
    nor than point squared cubed factorial power root mod modulo pi double doubled twice thrice triple tripled remainder
    recurring repeating about approximately roughly wrong incorrect false but except unless if maybe perhaps
"""
_CHANGING = _NEGATION | frozenset(_WORDS_THAT_CHANGE_A_NUMBER.split())


def read_number(text: str) -> Fraction | None:
    r"""The number that an answer gives, exactly, or None if there is none.

    It stands after the last "####", "answer:", "answer is", "result:" or `\boxed{`, or on the last line of a text
    without any of these. It may be closed arithmetic, whose exact value it then is, or the last side of an equation.
    Words may stand before a verb or a colon in front of it, a unit and a remark behind it, but no word that changes a
    number. Currencies and percent signs are units: 50% is 50.
    """
    text = without_thoughts(text)
    if _MARKER.search(text):
        return last_answer(_MARKER, _LINE, read_value, text)
    last_line = text.rstrip().rpartition("\n")[2]
    return read_lines(plain_lines(last_line), read_value) if len(last_line) <= LONGEST_ANSWER else None


def read_value(text: str) -> Fraction | None:
    """The value of a whole answer in plain spelling."""
    line = text.replace("\n", " ")
    answer = without_remark(line)
    if line[len(answer) :].lstrip(" ,;").startswith("(") and _changes(line[len(answer) :]):
        return None
    first, *rest = _EQUALS.split(_COLON.sub("=", _CURRENCY.sub(" ", answer)))
    *sides, last = (first, *rest)
    if not all(_is_name(side) or _quantity(side) is not None for side in sides if side is not first or side.strip()):
        return None
    if (verb := _VERB.match(last.lstrip())) and _is_name(verb[0]):
        last = last.lstrip()[verb.end() :]
    return _quantity(last)


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
        unit = unit[1:].removeprefix("C").removeprefix("F") if unit[0] == "°" else unit[1:]
    elif len(re.split(r"[^a-z]", unit, maxsplit=1, flags=re.IGNORECASE)[0]) == 1 and text[start - 1] not in " /":
        # 2k and 2m may be thousands and millions, 2x and 2i are products.
        return None
    words = re.findall(r"[^ /-]+", unit)
    while words and words[0].lower() in _SCALES:
        number *= _SCALES[words.pop(0).lower()]
    if _changes(" ".join(words)) or not all(map(_UNIT.fullmatch, words)):
        return None
    return number


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text.strip()) is not None and not _NEGATION & {*text.lower().replace(",", " ").split()}


def _changes(text: str) -> bool:
    """Whether a word of a text makes another number of the one before it."""
    return bool(_CHANGING & {*re.findall("[a-z']+", text.lower())})
