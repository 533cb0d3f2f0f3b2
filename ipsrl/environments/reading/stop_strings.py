"""Strings that end an answer, found in the bytes of its tokens: also in the middle of a token, and across tokens.

The string that is complete first ends the answer; of strings that end with the same byte, the longest is cut off.
"""

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from ipsrl.checking.specifications import shortened
from ipsrl.environments.language.chat_template import special_tokens
from ipsrl.environments.reading.answer_text import is_tag

MOST_BYTES = 255
"""Limit on all strings together, so that a state of the automaton fits into a byte."""
SPACES = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
"""The step of a decoder that writes the spaces of SentencePiece."""


def read_stop_strings(text: str) -> tuple[str, ...]:
    """The strings of a list in JSON, such as `[".", "\\n"]`; of an empty text none.

    Raises:
      ValueError: the text is something else, or as `as_bytes`.
    """
    try:
        strings = json.loads(text) if text else []
    except (ValueError, RecursionError):
        strings = None
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise ValueError(f'stop_strings is {shortened(text)}, it must be a list of texts in JSON, as [".", "\\n"]')
    as_bytes(strings)
    return tuple(strings)


def as_bytes(strings: Iterable[str]) -> list[bytes]:
    """The strings in UTF-8.

    Raises:
      ValueError: one is empty or no text, or together they have more than `MOST_BYTES` bytes.
    """
    try:
        encoded = [string.encode() for string in strings]
    except UnicodeEncodeError as error:
        raise ValueError(f"the stop string {shortened(error.object)} has half a character: write whole ones") from None
    if b"" in encoded:
        raise ValueError("a stop string is empty, and would end every answer before its first token: leave it out")
    if (total := sum(map(len, encoded))) > MOST_BYTES:
        raise ValueError(f"the stop strings have {total} bytes together, at most {MOST_BYTES} are allowed")
    return encoded


@dataclasses.dataclass(frozen=True)
class StopStrings:
    """Strings that end an answer in the tokens of a model.

    Attributes:
      strings: at least one.
      tokens: V, the bytes of each token of the model.
      unread: tokens in which strings are found, but that are no part of the text.
    """

    strings: tuple[bytes, ...]
    tokens: tuple[bytes, ...]
    unread: frozenset[int] = frozenset()

    @classmethod
    def of(cls, tokenizer: Any, strings: Iterable[str], vocabulary_size: int, unread: frozenset[int]) -> Self:
        """Raises ValueError as `as_bytes` and `bytes_of_tokens`."""
        return cls(tuple(as_bytes(strings)), tuple(bytes_of_tokens(tokenizer, vocabulary_size)), unread)

    @functools.cached_property
    def table(self) -> np.ndarray:
        """`[S, V]` uint8, the state after each token: 0 at the start of an answer, S - 1 when a string is complete."""
        by_byte = _automaton(self.strings)
        joined = np.frombuffer(b"".join(self.tokens), np.uint8)
        lengths = np.array([len(token) for token in self.tokens])
        starts = np.cumsum(lengths) - lengths
        table = np.repeat(np.arange(len(by_byte), dtype=np.uint8)[:, None], len(lengths), axis=1)
        for place in range(lengths.max()):
            longer = np.flatnonzero(lengths > place)
            table[:, longer] = by_byte[table[:, longer], joined[starts[longer] + place]]
        return table

    def text_before(self, tokens: Sequence[int]) -> str:
        """The text of an answer up to the string that ends it, or with it if it is a tag, such as `</answer>`."""
        words = [self.tokens[token] for token in tokens]
        text = b"".join(words)
        found = [
            (start + len(string), start + len(string) * is_tag(string.decode()))
            for string in self.strings
            if (start := text.find(string)) >= 0
        ]
        end = min(found)[1] if found else len(text)
        starts = itertools.accumulate(map(len, words), initial=0)
        read = (
            word[: max(0, end - start)]
            for token, word, start in zip(tokens, words, starts, strict=False)
            if token not in self.unread
        )
        return b"".join(read).decode(errors="replace")


def bytes_of_tokens(tokenizer: Any, vocabulary_size: int) -> list[bytes]:
    """The bytes that each token of a model adds to a text: of those that the tokenizer lacks, none.

    Args:
      tokenizer: a fast tokenizer of `transformers`.
      vocabulary_size: V of the model.

    Raises:
      ValueError: the tokenizer is neither a byte-level one nor one of SentencePiece's kind with a fallback to bytes.
    """
    decoder = json.loads(tokenizer.backend_tokenizer.to_str())["decoder"] or {}
    steps = decoder.get("decoders", [decoder])
    if [step.get("type") for step in steps] == ["ByteLevel"]:
        of_word = _of_byte_level
    elif SPACES in steps and {"type": "ByteFallback"} in steps:
        of_word = _of_sentencepiece
    else:
        raise ValueError(
            f"the tokenizer in {tokenizer.name_or_path} is neither byte-level nor falls back to bytes, so stop strings "
            "cannot be found in its tokens: leave them out"
        )
    special = special_tokens(tokenizer)
    found = [b""] * vocabulary_size
    for word, token in tokenizer.get_vocab().items():
        if token < vocabulary_size:
            found[token] = word.encode() if token in special else of_word(word)
    return found


def _of_byte_level(word: str) -> bytes:
    byte_of = _byte_of_character()
    # Added tokens are words as they are.
    return bytes(byte_of[each] for each in word) if all(each in byte_of for each in word) else word.encode()


def _of_sentencepiece(word: str) -> bytes:
    byte = re.fullmatch("<0x([0-9A-Fa-f]{2})>", word)
    return bytes.fromhex(byte[1]) if byte else word.replace("▁", " ").encode()


@functools.cache
def _byte_of_character() -> dict[str, int]:
    # Imported late: it takes a second.
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return {character: byte for byte, character in bytes_to_unicode().items()}


def _automaton(strings: Sequence[bytes]) -> np.ndarray:
    """`[S, 256]` uint8, the state after each byte (Aho and Corasick, 1975).

    A state is the longest end of the text so far with which a string begins; the last one, a whole string, is final.
    """
    beginnings = sorted({string[:length] for string in strings for length in range(len(string))}, key=len)
    state_of = {beginning: state for state, beginning in enumerate(beginnings)}
    table = np.zeros((len(beginnings) + 1, 256), np.uint8)
    table[-1] = complete = len(beginnings)
    for beginning, state in state_of.items():
        for byte in set(b"".join(strings)):
            text = beginning + bytes([byte])
            ends = (text[start:] for start in range(len(text) + 1))
            is_complete = text.endswith(tuple(strings))
            table[state, byte] = complete if is_complete else next(state_of[end] for end in ends if end in state_of)
    return table
