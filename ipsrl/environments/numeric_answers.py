"""Exact numbers in text: reads the number that an answer gives.

This module needs only the standard library: the processes that read answers import it alone.
"""

import collections
import re
from fractions import Fraction

# Far above what any answer needs, far below what takes long.
LONGEST_DIGITS = 100
LARGEST_EXPONENT = 300

_SPELLINGS = (
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\{,\}|(?<=\d)\\,(?=\d)"), ","),
    (re.compile(r"\\?[$%]|[€£¥₹]|\\left|\\right|\\[,;:! ]"), ""),
    (re.compile(r"(?<=\d)\s*\\[dt]?frac(?![a-zA-Z])"), r" \\frac"),
    (re.compile(r"\\[dt]?frac\s*(?:\{([^{}]{1,60})\}\s*\{([^{}]{1,60})\}|(\d)(\d))"), r"\1\3/\2\4"),
    (re.compile(r"\s?(?:\\times|\\cdot|[×·*])\s?10\s?\^\s?(?:\{([-+]?\d+)\}|([-+]?\d+))"), r"e\1\2"),
)
_PLAIN = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    # A - directly after an operand is not a sign, and a digit inside a word does not begin a number.
    rf"(?:(?<![\w.)\]}}])(?P<sign>[-+])|(?<![\w.]))(?:(?P<whole>\d+)[ ]+(?=\d+/\d))?(?P<top>{_PLAIN})"
    rf"(?:[eE](?P<power>[-+]?\d+)(?!\w))?(?:\s?/\s?(?P<bottom>{_PLAIN}))?"
)
_MARKERS = (
    re.compile(r"####"),
    re.compile(r"\\boxed\s*\{"),
    re.compile(r"\banswer\b[\s*_`]*(?:is\b|=|:)", re.IGNORECASE),
)


def read_number(text: str) -> Fraction | None:
    """The number that an answer gives, exactly, or None if there is none.

    It is the first number on the line after the last "####", else after the last \\boxed{, else after the last "answer
    is", "answer:" or "answer =", else the last number of the text.

    Numbers are integers, decimals and fractions a/b or \\frac{a}{b}, also mixed ("2 1/2"), with a sign, thousands
    separators and powers of ten ("1e5", "3 \\times 10^5"). Currency and percent signs are ignored like other units: 50%
    is 50. Numbers of more than 100 digits, or with exponents beyond 300, are not read.
    """
    for spelling, plain in _SPELLINGS:
        text = spelling.sub(plain, text)
    for marker in _MARKERS:
        after = marker.split(text)[1:]
        if after and (found := _NUMBER.search(after[-1].strip().partition("\n")[0])):
            return _value(found)
    last = collections.deque(_NUMBER.finditer(text), maxlen=1)
    return _value(last[0]) if last else None


def _value(found: re.Match[str]) -> Fraction | None:
    power = found["power"] or "0"
    if max(len(found[part] or "") for part in ("whole", "top", "bottom")) > LONGEST_DIGITS or len(power) > 5:
        return None
    if abs(int(power)) > LARGEST_EXPONENT:
        return None
    value = Fraction(found["top"].replace(",", "")) * Fraction(10) ** int(power)
    if found["bottom"]:
        bottom = Fraction(found["bottom"].replace(",", ""))
        if not bottom:
            return None
        value /= bottom
    value += int(found["whole"] or 0)
    return -value if found["sign"] == "-" else value
