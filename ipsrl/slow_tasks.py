"""Progress of tasks that take longer than expected."""

import contextlib
import sys
import threading
from collections.abc import Callable, Generator

MUTE_SECONDS = 5.0


@contextlib.contextmanager
def report_if_slow(progress: Callable[[], str]) -> Generator[None]:
    """Prints a line on stderr, terminal or not, if a task takes longer than `MUTE_SECONDS`; later ones are rarer.

    Args:
      progress: how far the task is, asked in another thread.
    """
    over = threading.Event()

    def speak() -> None:
        seconds = MUTE_SECONDS
        while not over.wait(seconds):
            print(progress(), file=sys.stderr, flush=True)
            seconds *= 2

    threading.Thread(target=speak, daemon=True).start()
    try:
        yield
    finally:
        over.set()
