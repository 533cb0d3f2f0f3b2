"""What a command does before its imports, which take seconds: Ctrl-C is one word, and a mistyped flag is refused."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from ipsrl.definitions import Module
from ipsrl.printable import printable


def refuse(check: Callable[[], object]) -> None:
    """Lets `check` end the program; where it fails, for whatever reason, the imported command has the say."""
    signal.signal(signal.SIGINT, _end)
    with contextlib.suppress(Exception):
        check()


def script(name: str) -> None:
    """Called by a script before its imports: refuses what its parser and its checks refuse.

    Args:
      name: of its module, which has `parser()`, and may have `check(arguments)`, which raises ValueError. Of both, what
        needs a large library is left to the imported script, see `ipsrl.definitions`.
    """

    def check() -> None:
        module = Module(name)
        arguments = module.parser().parse_args()
        try:
            module.check(arguments)
        except ValueError as error:
            sys.exit(printable(f"error: {error}"))

    refuse(check)


def _end(number: int, frame: FrameType | None) -> None:
    """Ends a command that is interrupted during its imports, when there is nothing to finish or to continue."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
