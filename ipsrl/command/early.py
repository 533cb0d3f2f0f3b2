"""The work of a command before its imports, which take seconds: a mistyped flag is refused, Ctrl-C prints one word.

So is too little address space, and what a library refuses when it is imported is one sentence.
"""

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType

from ipsrl.command.definitions import Module
from ipsrl.printable import printable

# The libraries alone reserve 0.5 GB, and 1.4 GB with JAX's threads on two cores. In less, some of them wait for ever.
ADDRESS_SPACE = 2 * 10**9


def refuse(check: Callable[[], object]) -> None:
    """Lets `check` end the program; where it fails, for whatever reason, the imported command has the say."""
    begin()
    with contextlib.suppress(Exception):
        check()


def begin() -> None:
    """Ends the program if there is too little address space, or when it is interrupted before `Ending` takes over."""
    signal.signal(signal.SIGINT, _end)
    sys.excepthook = _say
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        sys.exit(
            f"error: this process may use {limit / 10**9:.2g} GB of address space, but its libraries reserve up to "
            f"{ADDRESS_SPACE / 10**9:g} GB before anything is computed: raise the limit (ulimit -v)"
        )


def script(name: str) -> None:
    """Called by a script before its imports: refuses what its parser and its checks refuse.

    Args:
      name: of its module, which has `parser()`, and may have `check(arguments)`, which raises ValueError. Of both, what
        needs a large library is left to the imported script, see `ipsrl.command.definitions`.
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


def _say(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """Takes the place of `sys.excepthook`: a bad value, as of one of JAX's environment variables, is one sentence."""
    if isinstance(error, ValueError):
        print(printable(f"error: {error}"), file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, where)
