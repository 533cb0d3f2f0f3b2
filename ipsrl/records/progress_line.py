"""One line on the terminal that says how far a run is, or what is being worked on.

It is on stderr, and there is none where stderr is not a terminal, nor on any host but the first.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

from tqdm import tqdm

from ipsrl.distributed import hosts

# By default tqdm has a lock of processes as well, which a process that is killed leaves behind; here threads draw.
tqdm.set_lock(threading.RLock())


class ProgressLine:
    """Steps done, rate, time left, chosen metrics, and what is running; it goes when the run ends.

    Args:
      total: steps of the whole run.
      done: steps done before this process started, for a resumed run; they do not count in the rates.
      trajectories_per_step: how many trajectories are sampled in each step.
      label: what is running. A narrow terminal cuts off what stands last: the rate of trajectories, then the label.
    """

    def __init__(self, total: int, done: int = 0, trajectories_per_step: int = 0, label: str = ""):
        self._trajectories_per_step = trajectories_per_step
        self._label = label
        self._bar = _line(
            total=total,
            initial=done,
            unit="step",
            leave=False,
            # Alone as long as the first step is compiled.
            postfix=label or None,
            bar_format="{percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]",
        )
        self._ticking = contextlib.ExitStack()
        self._ticking.enter_context(ticking(self._bar))

    def advance(self, **metrics: Any) -> None:
        """Counts one step and shows `name value` for each metric; values are only looked at where they are shown."""
        if self._bar.disable:
            return
        shown = [f"{name.replace('_', ' ')} {float(value):.3g}" for name, value in metrics.items()]
        shown += [self._label] if self._label else []
        rate = self._bar.format_dict["rate"]
        shown += [f"{rate * self._trajectories_per_step:,.0f} trajectories/s"] if rate else []
        self._bar.set_postfix_str(", ".join(shown), refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._ticking.close()
        self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def working(task: str) -> Iterator[None]:
    """Shows a task and for how long it has been worked on, until that is done: for what cannot say how far it is.

    What prints meanwhile has to do so by `tqdm.write`.
    """
    with _line(desc=task, bar_format="{desc} [{elapsed}]", leave=False) as line, ticking(line):
        yield


def report_line(text: str) -> None:
    """Prints a line on stderr, above the progress line if there is one."""
    tqdm.write(text, file=sys.stderr)


def say_in_log(text: str) -> None:
    """Prints a line on stderr where that is no terminal, so that a log shows what a progress line would."""
    if hosts.is_first() and not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def _line(**settings: Any) -> tqdm:
    # disable=None is tqdm's "not on a terminal".
    return tqdm(disable=None if hosts.is_first() else True, dynamic_ncols=True, **settings)


@contextlib.contextmanager
def ticking(line: tqdm, seconds: float = 1.0, look: Callable[[], None] | None = None) -> Iterator[None]:
    """Draws a line anew every so many seconds, so that its clock moves while the caller waits for a program.

    Args:
      line: nothing is done where it is not shown.
      seconds: from one time to the next.
      look: called before, by another thread, to bring up to date what the line says.
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
        # Control-C may have left tqdm's lock taken, and the thread waiting for it.
        ticker.join(timeout=1.0)
