"""The first phrase, or the first sentence, of an answer in text, in one spelling.

Lower case, without accents, quotation marks, Markdown, symbols, articles in front and hyphens within words: "**The
Guinea-Bissau**, of course." is `guinea bissau`. Marks end a phrase unless a letter or digit follows: `3.5`, `vb.net`.

This module needs only the standard library, so processes that read answers import little.
"""

import re
import unicodedata

from ipsrl.environments.answer_text import without_thoughts

STOP_STRINGS = (".", ",", ";", ":", "!", "?", "\n", " (", " - ", " – ", "—", " and ", " or ")
"""What ends a phrase, for models that stop there."""
SENTENCE_STOP_STRINGS = (".", "!", "?", "\n")
LONGEST_PHRASE, LONGEST_SENTENCE = 60, 240

# Of one line, more than any answer needs, decoration included.
_LONGEST_LINE = 1000
_END_OF_PHRASE = re.compile(r"[.,;:!?](?!\w)| \(| [-–] |—| (?:and|or)\b")
_END_OF_SENTENCE = re.compile(r"[.!?](?!\w)")
# Accents, emoji and what cannot be seen.
_LEFT_OUT = frozenset({"Mn", "So", "Sk", "Cf"})
_SIGNS = str.maketrans(dict.fromkeys('*_`"“”„«»•', " ") | dict.fromkeys("‘’", "'") | dict.fromkeys("‐‑", "-"))
_HYPHEN = re.compile(r"(?<=\w)[-–](?=\w)")
_AROUND = " '()[]{}<>"
# Brackets, articles and bullets.
_BEFORE = re.compile(r"^(?:[ '()\[\]{}<>]|(?:the|an?|-|#+) )+")


def read_phrase(text: str) -> str | None:
    """The first phrase of the first line; None if it has no letter or digit, or more than 60 characters.

    It ends at one of `. , ; : ! ?`, a bracket or a dash behind a blank, "and", "or", or the end of the line.
    """
    return _read(text, _END_OF_PHRASE, LONGEST_PHRASE)


def read_sentence(text: str) -> str | None:
    """The first sentence of the first line, spelled as phrases are, of at most 240 characters."""
    return _read(text, _END_OF_SENTENCE, LONGEST_SENTENCE)


def _read(text: str, end: re.Pattern[str], longest: int) -> str | None:
    line = "".join(without_thoughts(text).lstrip()[:_LONGEST_LINE].splitlines()[:1])
    characters = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", line).casefold())
    plain = "".join(character for character in characters if unicodedata.category(character) not in _LEFT_OUT)
    plain = " ".join(unicodedata.normalize("NFC", plain).translate(_SIGNS).split())
    words = end.split(_HYPHEN.sub(" ", plain), maxsplit=1)[0]
    phrase = _BEFORE.sub("", words.rstrip(_AROUND))
    return phrase if len(phrase) <= longest and re.search(r"\w", phrase) else None
