"""Tokens of SMILES strings, as REINVENT splits them (arXiv 1704.07555).

A token is a bracket atom, a ring closure of two digits (%12), Br or Cl, or else one character. `$` ends a molecule, and
pads: its number is 0. `^` begins one.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Sequence

import numpy as np

END, BEGIN = "$", "^"
TOKEN = re.compile(r"\[[^\]]*\]|%\d\d|Br|Cl|.", re.DOTALL)


def split(smiles: str) -> list[str]:
    """The tokens of a string, which together are the string again."""
    return TOKEN.findall(smiles)


@dataclasses.dataclass(frozen=True)
class SmilesVocabulary:
    """The tokens that a policy can write.

    Attributes:
      tokens: a token's number is its place; the first is `$`, the second `^`.

    Raises:
      ValueError: the first two are others, or a token is given twice.
    """

    tokens: tuple[str, ...]

    def __post_init__(self):
        if self.tokens[:2] != (END, BEGIN):
            raise ValueError(f"the first tokens are {self.tokens[:2]}, they must be {(END, BEGIN)}")
        if len(self._numbers) < len(self.tokens):
            raise ValueError("tokens has a token twice: give each once")

    @classmethod
    def of(cls, texts: Iterable[str]) -> "SmilesVocabulary":
        """All tokens of some SMILES strings, in alphabetical order, after `$` and `^`."""
        found = {token for smiles in texts for token in split(smiles)} - {END, BEGIN}
        return cls((END, BEGIN, *sorted(found)))

    def encode(self, smiles: str) -> np.ndarray:
        """`[T]` int32, the tokens of a string and the end.

        Raises:
          ValueError: a token is not in the vocabulary, or one of `^` and `$` is in the string.
        """
        tokens = split(smiles)
        for token in tokens:
            if token not in self._numbers or token in (END, BEGIN):
                raise ValueError(f"{smiles!r} has {token!r}, which is no token of a molecule in this vocabulary")
        return np.array([*(self._numbers[token] for token in tokens), self._numbers[END]], np.int32)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The string of tokens up to the first `$`, or of all if there is none."""
        written = [self.tokens[token] for token in tokens]
        return "".join(written[: written.index(END)] if END in written else written)

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}
