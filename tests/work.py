"""The work of a function as a number of calls, which is the same on every machine."""

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.hangs import HANGS


class HangsError(Exception):
    """Something hangs."""


def calls_of(function: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    """Calls a function; returns how many calls, of functions in Python and in C, this thread then makes, and its value.

    What happens inside a function in C, as in a search for a pattern, is not counted.

    Raises:
      HangsError: it has taken so many seconds of the processor that it would not end.
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, HANGS)
    sys.setprofile(count)
    try:
        value = function(*arguments)
    finally:
        sys.setprofile(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return calls, value


def _end(number: int, frame: FrameType | None) -> None:
    raise HangsError(f"it has taken {HANGS} seconds of the processor")
