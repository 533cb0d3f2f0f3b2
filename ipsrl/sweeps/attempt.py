"""One run as a child process, at the place where a launcher runs it."""

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

from ipsrl.checking.regular_files import open_regular
from ipsrl.records.run_folder import is_complete
from ipsrl.study import catalog
from ipsrl.sweeps.sweep_folder import POLL_SECONDS, State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun

# Folder of the repository on this machine; it may differ on other machines of a cluster.
ROOT = catalog.root()
# Time for a process to end by itself before it is killed.
SECONDS_TO_END = 10
# Bytes at the end of a log that are searched for its last lines.
LONGEST_END = 20_000
# Exit status of an experiment interrupted by Ctrl-C.
INTERRUPTED = 128 + signal.SIGINT

Call = Callable[[Sequence[str], IO[str], threading.Event], int]


def child_command(folder: SweepFolder, run: SweepRun) -> list[str]:
    """The command that starts or continues a run on this machine."""
    return [sys.executable, "-m", *run.arguments, f"--out={folder.run_path(run)}", "--resume"]


def call(command: Sequence[str], log: IO[str], ending: threading.Event) -> int:
    """Runs a command until it ends or `ending` is set; returns its exit status."""
    announce(command, log)
    # In its own session it receives neither Ctrl-C nor SLURM's signals: those are for the sweep, which ends it.
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    return wait(process.pid, process.poll, ending)


def announce(command: Sequence[str], log: IO[str]) -> None:
    """Writes the command into a log, before its output."""
    print(f"$ {shlex.join(command)}", file=log, flush=True)


def wait(pid: int, poll: Callable[[], int | None], ending: threading.Event) -> int:
    """Waits until a process ends, or ends it together with all processes that it started; returns its exit status.

    Args:
      pid: of the process, which leads its own session.
      poll: returns its exit status, or None while it runs.
      ending: if it is set, or the wait is interrupted, the process is terminated, and killed if it does not end.
    """
    try:
        while poll() is None and not ending.wait(POLL_SECONDS):
            pass
    finally:
        deadline = time.monotonic() + SECONDS_TO_END
        _signal(pid, poll, signal.SIGTERM)
        while poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        # Its child processes may still run, and would keep the run locked.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        while (status := poll()) is None:
            _signal(pid, poll, signal.SIGKILL)
            time.sleep(POLL_SECONDS)
    return status


def _signal(pid: int, poll: Callable[[], int | None], number: int) -> None:
    """Sends a signal to a process and its children; to it alone before it has its own session."""
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
    """Runs a run until it is finished, failed or broken, in a child process whose output goes to the run's log.

    A killed process (by a signal, for example if memory is short) does not mean that the run failed: it is started
    again, and the run fails only after more than `restarts` kills. If a process of an earlier sweep still works on the
    run, this waits for its end.

    Args:
      folder: of the sweep, which has locked it.
      command: starts or continues the run here.
      ending: set by another thread to end the work; the run is then broken.
      call: runs the command; `call` starts a process for it.

    Raises:
      OSError: the folder cannot be written.
    """
    with folder.claim(run, ending) as log:
        if log is None:
            return "broken"
        # The run may have ended during the wait.
        if is_complete(folder.run_path(run)):
            return "finished"
        folder.failure_path(run).unlink(missing_ok=True)
        begins = log.tell()
        for _ in range(1 + restarts):
            status = call(command, log, ending)
            # The process may have failed in any way after it had written its summary.
            if is_complete(folder.run_path(run)):
                return "finished"
            if ending.is_set():
                return "broken"
            if status >= 0 and status != INTERRUPTED:
                break
        folder.record_failure(run, command, status, _said(folder.log_path(run), begins))
        return "failed"


def _said(log: Path, begins: int) -> str:
    """The end of a log, after byte `begins`."""
    with open_regular(log, "rb") as file:
        file.seek(max(begins, log.stat().st_size - LONGEST_END))
        return file.read().decode(errors="replace")
