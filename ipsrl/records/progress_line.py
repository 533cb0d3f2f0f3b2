"""One line on the terminal that shows a run's progress, or the current task.

It is on stderr; there is none if stderr is not a terminal, and on any host but the first.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from tqdm import tqdm
from tqdm.utils import ObjectWrapper

from ipsrl.distributed import hosts

# By default tqdm also has a lock between processes, which a killed process leaves behind; here only threads draw.
tqdm.set_lock(threading.RLock())

SILENT_SECONDS = 5.0
"""After which a command that is still busy says with what."""

T = TypeVar("T")


class ProgressLine(contextlib.AbstractContextManager["ProgressLine"]):
    """Steps done, rate, time left, chosen metrics, and a label; the line is removed when the run ends.

    Args:
      total: steps of the whole run.
      done: steps done before this process started, for a resumed run; they do not count in the rates.
      label: name of the run. A narrow terminal cuts off the end: the rate of trajectories, then the label.
    """

    def __init__(self, total: int, done: int = 0, trajectories_per_step: int = 0, label: str = ""):
        self._trajectories_per_step = trajectories_per_step
        self._label = label
        self._bar = drawn_line(
            total=total,
            initial=done,
            unit="step",
            leave=False,
            # Shown alone while the first step is compiled.
            postfix=label or None,
            bar_format="{percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]",
        )
        self._ticking = contextlib.ExitStack()
        self._ticking.enter_context(ticking(self._bar))

    def advance(self, **metrics: Any) -> None:
        """Counts one step and shows `name value` for each metric; values are fetched only if they are shown."""
        if self._bar.disable:
            return
        shown = [f"{name.replace('_', ' ')} {float(value):.3g}" for name, value in metrics.items()]
        shown += [self._label] if self._label else []
        rate = self._bar.format_dict["rate"]
        shown += [f"{rate * self._trajectories_per_step:,.0f} trajectories/s"] if rate else []
        self._bar.set_postfix_str(", ".join(shown), refresh=False)
        self._bar.update()

    def __exit__(self, *exception: object) -> None:
        self._ticking.close()
        self._bar.close()


@contextlib.contextmanager
def working(task: str) -> Generator[None]:
    """Shows a task and its elapsed time until it is done, for tasks without a measure of progress.

    Meanwhile, print only by `tqdm.write`.
    """
    with drawn_line(desc=task, bar_format="{desc} [{elapsed}]", leave=False) as line, ticking(line):
        yield


def counted(values: Iterable[T], what: str) -> Iterator[T]:
    """The same values, counted on a terminal; in a log there are lines, the first after `SILENT_SECONDS`.

    `what` is a word for them in the plural.
    """
    silent = SILENT_SECONDS
    next_line = time.monotonic() + silent
    with drawn_line(desc=what, unit="", mininterval=1.0, delay=1.0) as line:
        for number, value in enumerate(values):
            if time.monotonic() > next_line:
                say_in_log(f"{what}: {number:,}")
                silent *= 2
                next_line = time.monotonic() + silent
            yield value
            line.update()


def report_line(text: str) -> None:
    """Prints a line on stderr, above the progress line if there is one."""
    tqdm.write(text, file=sys.stderr)


def say_in_log(text: str) -> None:
    """Prints a line on stderr if it is not a terminal, so that a log shows what a progress line would."""
    if hosts.is_first() and not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


class _Terminal(ObjectWrapper):
    """stderr for tqdm, which moves on it; what others write to stderr cannot, see `ipsrl.command.ending`."""

    def write(self, text: str) -> None:
        getattr(self._wrapped, "draw", self._wrapped.write)(text)

    def __eq__(self, other: object) -> bool:
        # tqdm asks whether another text goes to the same stream, and makes room for it.
        return self._wrapped == getattr(other, "_wrapped", other)

    __hash__ = None


def drawn_line(**settings: Any) -> tqdm:
    """A line of tqdm on stderr, with these settings, if stderr is a terminal."""
    # disable=None is tqdm's "disabled unless on a terminal".
    disable = None if hosts.is_first() else True
    return tqdm(file=_Terminal(sys.stderr), disable=disable, dynamic_ncols=True, **settings)


@contextlib.contextmanager
def ticking(line: tqdm, seconds: float = 1.0, look: Callable[[], None] | None = None) -> Generator[None]:
    """Redraws a line at intervals, if it is shown, so that its clock moves while the caller waits for a program.

    Before each redraw `look` is called, in another thread, to update the line.
    """
    if line.disable:
        yield
        return
    over = threading.Event()

    def tick():
        while not over.wait(seconds):
            if look is not None:
                look()
            line.refresh()

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        # Control-C may have left tqdm's lock held, and the thread waiting for it.
        ticker.join(timeout=1.0)
