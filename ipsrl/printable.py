"""Texts of others on a terminal: control characters, which could rewrite what is there, are shown as JSON has them."""

import re

CONTROL = "\x00-\x1f\x7f-\x9f"
DIRECTION = "\u202a-\u202e\u2066-\u2069"
HALF = "\ud800-\udfff"
"""Halves of characters, which no stream in UTF-8 takes."""
_HIDDEN = re.compile(f"[{CONTROL}{DIRECTION}{HALF}]")


def printable(text: str, kept: str = "\n\t") -> str:
    r"""The text with `\u001b` in the place of a control character, a change of direction or half of a character.

    Args:
      text: any text.
      kept: the ones of these characters that stay as they are.
    """
    return _HIDDEN.sub(lambda found: found[0] if found[0] in kept else f"\\u{ord(found[0]):04x}", text)
