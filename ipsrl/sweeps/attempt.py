"""One run as a child process, wherever a launcher has found a place for it."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from ipsrl.records.run_folder import is_complete
from ipsrl.study import catalog
from ipsrl.sweeps.sweep_folder import POLL_SECONDS, State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun

# Where this machine has the repository; on another machine of a cluster it may lie elsewhere.
ROOT = catalog.root()
# What a process gets to end by itself before it is killed.
SECONDS_TO_END = 10
# Bytes of a log in which its last lines are looked for.
LONGEST_END = 20_000
# The exit status of an experiment that was interrupted by Ctrl-C.
INTERRUPTED = 128 + signal.SIGINT

Call = Callable[[Sequence[str], IO[str], threading.Event], int]


def child_command(folder: SweepFolder, run: SweepRun) -> list[str]:
    """What runs a run on this machine, or continues it."""
    return [sys.executable, "-m", *run.arguments, f"--out={folder.run_path(run)}", "--resume"]


def call(command: Sequence[str], log: IO[str], ending: threading.Event) -> int:
    """Runs a command until it ends or is to end; returns its exit status."""
    announce(command, log)
    # In a session of its own it hears neither Ctrl-C nor the signals of SLURM: they are for the sweep, which ends it.
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    return wait(process.pid, process.poll, ending)


def announce(command: Sequence[str], log: IO[str]) -> None:
    """Writes into a log what is said from here on by which command."""
    print(f"$ {shlex.join(command)}", file=log, flush=True)


def wait(pid: int, poll: Callable[[], int | None], ending: threading.Event) -> int:
    """Waits until a process ends, or ends it, and all that it has started; returns its exit status.

    Args:
      pid: of the process, which leads a session of its own.
      poll: returns its exit status, None while there is none.
      ending: where it is set, or the wait is interrupted, the process is told to end, and is killed where it does not.
    """
    try:
        while poll() is None and not ending.wait(POLL_SECONDS):
            pass
    finally:
        deadline = time.monotonic() + SECONDS_TO_END
        _signal(pid, poll, signal.SIGTERM)
        while poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        # Others may be left where the first has ended, and would hold the run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        while poll() is None:
            _signal(pid, poll, signal.SIGKILL)
            time.sleep(POLL_SECONDS)
    return poll()


def _signal(pid: int, poll: Callable[[], int | None], number: int) -> None:
    """Sends a signal to a process and those that it has started; before it has a session, to it alone."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            if poll() is None:
                send(pid, number)
                return


def attempt(
    folder: SweepFolder,
    run: SweepRun,
    command: Sequence[str],
    restarts: int,
    ending: threading.Event,
    call: Call = call,
) -> State:
    """Works on a run until it has finished or failed, in a child process whose output goes to the run's log.

    A process that is killed (by a signal, as the operating system does where memory is short) says nothing about the
    run: it is started again, and only where that has happened more often than `restarts` times has the run failed.
    Where a process that an earlier sweep has left behind works on the run, its end is waited for.

    Args:
      folder: of the sweep, which holds it.
      run: what to work on.
      command: what runs it here, or continues it.
      restarts: how often it is started again.
      ending: set by another thread, it ends the work; the run is then broken.
      call: how the command is called; `call` starts a process for it.

    Returns:
      what has become of the run: finished, failed or broken.

    Raises:
      OSError: the folder cannot be written.
    """
    with folder.claim(run, ending) as log:
        if log is None:
            return "broken"
        # It may have come to its end while it was waited for.
        if is_complete(folder.run_path(run)):
            return "finished"
        folder.failure_path(run).unlink(missing_ok=True)
        begins = log.tell()
        for _ in range(1 + restarts):
            status = call(command, log, ending)
            # Whatever has become of the process after it had written its summary.
            if is_complete(folder.run_path(run)):
                return "finished"
            if ending.is_set():
                return "broken"
            if status >= 0 and status != INTERRUPTED:
                break
        folder.record_failure(run, command, status, _said(folder.log_path(run), begins))
        return "failed"


def _said(log: Path, begins: int) -> str:
    """The end of what stands in a log from some byte on."""
    with log.open("rb") as file:
        file.seek(max(begins, log.stat().st_size - LONGEST_END))
        return file.read().decode(errors="replace")
