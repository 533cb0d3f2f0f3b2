r"""Words and signs around a box with which its content is still the answer. docs/answers.md states the rule.

A model boxes what it means to give, so words beside a box are harmless unless they are known to change an answer: a
doubt, a negation, an alternative, a size, an operation. Signs beside it are harmless only if they are known to be.
"""

import re
from collections.abc import Callable
from typing import Any

from ipsrl.environments.reading.answer_words import UNIT_SIGNS, harmless_before_box, harmless_behind_box, tells_mistake

# "The total is approx. 5" is one sentence.
_ABBREVIATIONS = "".join(rf"(?<!\b{word})" for word in ("approx", "max", "min", "est", "ca", "vs", "resp"))
# What may begin a sentence, its decoration first; the box itself is at the end.
_BEGINNING = r"(?:[\s$*_`]|\\[(\[])*+(?:[A-Za-z∴=→⇒\\]|\Z)"
_SENTENCE = re.compile(
    rf".*(?:{_ABBREVIATIONS}[.!?][)*_$]*\s++(?={_BEGINNING})|[,;] +(?=(?:and +)?(?:so|thus|hence|therefore)\b))",
    re.DOTALL,
)
_WRAPPER = re.compile(r"(?:\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|boldsymbol)\s*|(?<![\w}]))\{\s*\Z")
# A star that is no product.
_EMPHASIS = re.compile(r"(?<![\d)}\]])(?<![\d)}\]*] )(?<!\*)\*\Z")
_FACTORIAL = re.compile(r"!\s*(?:\$|\\[)\]])")
# An equals sign, a colon, or an arrow between two steps.
_RELATION = re.compile(r"(?:(?<![<>≤≥≠!=])=|(?<!\d):|:(?=\s)|[=-]+>|∴|\\therefore|\\equiv|≡)\s*\Z")
_WORD = re.compile(r"(?<!\\)\b[a-z]+(?:['-][a-z]+)*|\d+")
_ENDS_WITH_WORD = re.compile(r".*(?<![\\\w])[a-z]+(?:['-][a-z]+)*\Z", re.DOTALL)
_UNIT = re.compile(r"\s*(?:%|°\s*[CF]?(?!\w))")
_POWER = re.compile(r"(?<=[a-z])(?:\^\{?[23]\}?|[²³])(?!\w)")
_END = re.compile(r"[.!?](?=\s|\Z)|\s[:;]-?\)")
_MODULUS = re.compile(r"\\pmod\s*(?:\{\w+\}|\w+)|\(\s*(?:\\?mod|\\bmod)\s+\w+\s*\)")
# Behind a congruence; else it is an operation.
_BARE_MODULUS = re.compile(r"\s*\\b?mod(?![a-z])\s*(?:\{\w+\}|\w+)")
_CONGRUENCE = re.compile(r"(?:\\equiv|≡)\s*\Z")
# The question or part that is answered.
_LABEL = re.compile(r"[\s*_]*(?:\([A-Ha-h]\)|[A-Ha-h]\)|[0-9]{1,2}\))\s+")
# "5, not 6"; the number is read.
NOT_ANOTHER = re.compile(r"(?:, not | ?\(not )(?P<number>-?[0-9][0-9.,/]*(?<=[0-9]))(?P<closed>\))?(?=[.!]?(?:\s|\Z))")
_WHOLE = r"[0-9]+(?:,[0-9]{3})*"
# What is counted has a range: "primes below 10", but "degrees below 10" is another number.
_RANGE = re.compile(
    r"(?<![a-z])(?P<counted>primes|numbers|integers|divisors|multiples|factors|palindromes)"
    rf"(?: (?:of|(?:that are )?(?:below|under|above|up to|(?:less|greater|smaller|larger) than|between {_WHOLE} and))"
    rf" {_WHOLE}(?![\w^]|[.,][0-9]))+"
)
_PUNCTUATION = re.compile(r"[\s.,;:!)]*")
_WORDS = re.compile(r"(?!')[a-zA-Z' ,;:()/-]*")
# "5, attained at x = 2", but not "5, y = 2" and "5, 30 minutes".
_CLAUSE = re.compile(r", (?=[a-zA-Z]{2})")


def last_sentence(text: str) -> str:
    """The part of `text`, which ends before a box, in the sentence of the box; empty if no sentence is unfinished."""
    sentences = _SENTENCE.match(text)
    return text[sentences.end() :] if sentences else text


def unwrapped(before: str, behind: str) -> tuple[str, str]:
    r"""The texts before and behind a box, without commands of type around it, such as `\textbf{...}`."""
    while (opening := _WRAPPER.search(before)) and behind.lstrip().startswith("}"):
        before, behind = before[: opening.start()], behind.lstrip()[1:]
    if _EMPHASIS.search(before) and re.match(r"\*(?!\*)(?! *[\d(\\])", behind):
        return before[:-1], behind[1:]
    return before, behind


def is_factorial(behind: str) -> bool:
    """Whether an exclamation mark behind a box belongs to its formula."""
    return _FACTORIAL.match(behind) is not None


def leaves_box(before: str, behind: str, answer: Any, read: Callable[[str], Any]) -> bool:
    """Whether what stands around a box in its sentence leaves the answer as it is.

    Args:
      before, behind: in plain spelling.
      answer: what the box holds.
      read: parses a whole answer in plain spelling.
    """
    if _CONGRUENCE.search(before):
        behind = _BARE_MODULUS.sub("", behind, count=1)
    return _harmless_before(_LABEL.sub("", before, count=1) if _LABEL.fullmatch(before) else before, answer, read) and (
        _harmless_behind(without_another(behind, answer, read))
    )


def without_another(text: str, answer: Any, read: Callable[[str], Any]) -> str:
    """The text behind an answer without another number that it is not: ", not 6" and " (not 6)"."""
    other = NOT_ANOTHER.match(text)
    if other is None or (other["closed"] is None) == ("(" in other[0]) or read(other["number"]) in (None, answer):
        return text
    return text[other.end() :]


def _harmless_before(text: str, answer: Any, read: Callable[[str], Any]) -> bool:
    """A text before a box ends with a word, or a relation to no other answer, or a comma behind the same answer."""
    if text.rstrip().endswith(",") and "=" in text:
        return read(text.rstrip(" ,").rpartition("=")[2].strip()) == answer
    relation = _RELATION.search(text)
    lead = text[: relation.start()] if relation else text.rstrip(" ,")
    side = lead.rpartition("=")[2].strip()
    # A side without a digit, as in x = y, is a variable, which is an answer of its own in some tasks.
    if relation and relation[0].strip() == "=" and read(side) not in (None, answer if re.search(r"\d", side) else None):
        return False
    small = lead.lower()
    if small and not relation and not _ENDS_WITH_WORD.match(small):
        return False
    *_, clause = (_WORD.findall(part) for part in re.split("[,;:]", small))
    words = _WORD.findall(small)
    if tells_mistake(words) or words[:1] == ["had"]:
        return False
    # The relation is a copula.
    ending = ["is"] if relation else []
    return harmless_before_box([*(clause if len(clause) > 1 else words), *(ending if words else [])])


def _harmless_behind(text: str) -> bool:
    """A text behind a box is words, after a unit or not; a line below without words may belong to a formula."""
    if "\n" in text:
        return _PUNCTUATION.fullmatch(text) is not None
    unit = _UNIT.match(text)
    text = text[unit.end() :] if unit else text
    end = _END.search(text)
    if (end and end[0] == "?") or text[:1].isalnum() or re.match(r"[-/]|[.,:]\d", text):
        return False
    sentence = _POWER.sub("", _END.split(_RANGE.sub(r"\g<counted>", _MODULUS.sub("", text)), maxsplit=1)[0])
    first = re.match(r"\s*([A-Za-z])(?!\w)", sentence)
    if first and first[1] not in UNIT_SIGNS | {"a"}:
        return False
    return _WORDS.fullmatch(_CLAUSE.split(sentence)[0]) is not None and harmless_behind_box(
        _WORD.findall(sentence.lower())
    )
