"""The first phrase, or the first sentence, of an answer in text, in one spelling.

Lower case, without accents, quotation marks, Markdown, symbols, articles in front and hyphens within words: "**The
Guinea-Bissau**, of course." is `guinea bissau`. Marks end a phrase unless a letter or digit follows: `3.5`, `vb.net`.
Powers, indices and fractions stay what they are: 2³ is not 23.
"""

import re
import unicodedata

from ipsrl.environments.reading.answer_text import without_thoughts

STOP_STRINGS = (*".,;:!?\n—。，、；：！？", " (", "（", " - ", " – ", " and ", " or ")
"""Strings that end a phrase, for models that stop there."""
SENTENCE_STOP_STRINGS = (*".!?\n。！？",)
LONGEST_PHRASE, LONGEST_SENTENCE = 60, 240

# Of one line, more than any answer needs, decoration included.
_LONGEST_LINE = 1000
_END_OF_PHRASE = re.compile(r"[.,;:!?](?!\w)| \(| [-–] |—| (?:and|or)\b")
_END_OF_SENTENCE = re.compile(r"[.!?](?!\w)")
# Marks of other scripts, which a letter follows without a blank.
_MARKS = str.maketrans(
    dict.fromkeys("。｡।॥۔።", ". ")
    | dict.fromkeys("，､、،፣", ", ")
    | dict.fromkeys("；؛", "; ")
    | dict.fromkeys("？؟", "? ")
    | {"：": ": ", "！": "! ", "（": " (", "…": "... "}
    | dict.fromkeys("「」『』《》〈〉【】", " ")
)
# Compatible with digits, but other numbers beside one: powers, indices, fractions.
_OTHER_NUMBERS = ("<super>", "<sub>", "<fraction>", "<circle>")
# In other scripts a mark makes another letter.
_SCRIPTS_WITH_ACCENTS = ("LATIN", "GREEK", "CYRILLIC", "HEBREW", "ARABIC")
# What cannot be seen; invisible operators stand between two numbers.
_LEFT_OUT = frozenset({"Cf"})
# Emoji, accents by themselves.
_BLANKS = frozenset({"So", "Sk"})
_INVISIBLE_OPERATORS = "\u2061\u2062\u2063\u2064"
_SIGNS = str.maketrans(dict.fromkeys('*_`"“”„«»•', " ") | dict.fromkeys("‘’", "'") | dict.fromkeys("‐‑", "-"))
_HYPHEN = re.compile(r"(?<=\w)[-–](?=\w)")
_AROUND = " '()[]{}<>"
# Brackets, articles and bullets.
_BEFORE = re.compile(r"^(?:[ '()\[\]{}<>]|(?:the|an?|-|#+) )+")


def read_phrase(text: str) -> str | None:
    """The first phrase of the first line; None if it has no letter or digit, or more than 60 characters.

    It ends at one of `. , ; : ! ?`, a bracket or a dash behind a blank, "and", "or", or the end of the line; also at
    the marks of other scripts, such as `。` and `،`.
    """
    return _read(text, _END_OF_PHRASE, LONGEST_PHRASE)


def read_sentence(text: str) -> str | None:
    """The first sentence of the first line, spelled as phrases are, of at most 240 characters."""
    return _read(text, _END_OF_SENTENCE, LONGEST_SENTENCE)


def read_whole(text: str) -> str:
    """All of a text, spelled as phrases are, without the marks at its end: what a phrase is if nothing is cut off."""
    return _without_frame(_plain(" ".join(text.split())).rstrip(" .,;:!?"))


def _read(text: str, end: re.Pattern[str], longest: int) -> str | None:
    line = "".join(without_thoughts(text).lstrip()[:_LONGEST_LINE].splitlines()[:1])
    phrase = _without_frame(end.split(_plain(line), maxsplit=1)[0])
    return phrase if len(phrase) <= longest and re.search(r"\w", phrase) else None


def _plain(line: str) -> str:
    """Small letters, without accents, symbols and what cannot be seen."""
    compatible = "".join(
        sign if unicodedata.decomposition(sign).startswith(_OTHER_NUMBERS) else unicodedata.normalize("NFKC", sign)
        for sign in unicodedata.normalize("NFC", line).translate(_MARKS)
    )
    plain, keeps_marks = "", False
    for sign in unicodedata.normalize("NFD", compatible.casefold()):
        category = unicodedata.category(sign)
        if category == "Mn":
            plain += sign if keeps_marks and not unicodedata.name(sign).startswith("VARIATION") else ""
            continue
        script = unicodedata.name(sign, "").split(" ")[0]
        keeps_marks = category.startswith("L") and script not in _SCRIPTS_WITH_ACCENTS
        if category in _BLANKS or sign in _INVISIBLE_OPERATORS:
            plain += " "
        elif category not in _LEFT_OUT:
            plain += sign
    plain = " ".join(unicodedata.normalize("NFC", plain).translate(_SIGNS).split())
    return _HYPHEN.sub(" ", plain)


def _without_frame(words: str) -> str:
    return _BEFORE.sub("", words.rstrip(_AROUND))
