"""The folder of a sweep: the state of its runs is read from files, never stored elsewhere.

sweep.json               all runs ever requested in this folder
runs/<identity>/         written by the run itself, see `ipsrl.records.run_folder`
logs/<identity>.log      output of its processes; an open log locks the run
failures/<identity>.json of a failed run: command, status, time, last lines of the log
.lock                    held by the sweep that works in this folder
"""

import contextlib
import dataclasses
import fcntl
import json
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, Self, get_args

from ipsrl.checking.paths import expanded, require_possible
from ipsrl.checking.regular_files import open_regular, require
from ipsrl.checking.specifications import shortened
from ipsrl.records.json_files import read_json, remove_unfinished, write_json
from ipsrl.records.run_folder import is_complete
from ipsrl.sweeps.sweep_runs import SweepRun

State = Literal["finished", "running", "failed", "broken", "waiting"]
STATES: tuple[State, ...] = get_args(State)
FOLDERS = ("runs", "logs", "failures")
LAST_LINES = 20
# Interval between checks whether a process has ended.
POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """The folder of a sweep, made by `SweepFolder.at`: an absolute path, which need not exist; only `hold` makes it."""

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> Self:
        """Raises ValueError if the folder has files but is not that of a sweep."""
        path = expanded(path, "--out").absolute()
        require_possible(path)
        files = sorted(file.name for file in path.glob("[!.]*"))
        if files and "sweep.json" not in files:
            raise ValueError(
                f"{path} holds {files[0]!r} but no sweep.json, so it is not the folder of a sweep; choose another --out"
            )
        return cls(path)

    def run_path(self, run: SweepRun) -> Path:
        return self.path / "runs" / run.identity

    def log_path(self, run: SweepRun) -> Path:
        return self.path / "logs" / f"{run.identity}.log"

    def failure_path(self, run: SweepRun) -> Path:
        return self.path / "failures" / f"{run.identity}.json"

    def state(self, run: SweepRun) -> State:
        """The state of a run.

        finished: its summary says that it is complete. running: a process of this or of a killed sweep works on it.
        failed: it ended by itself without a result. broken: it has started, but no process works on it. waiting: it has
        not started.
        """
        if is_complete(self.run_path(run)):
            return "finished"
        log = self.log_path(run)
        if log.exists():
            with open_regular(log, "rb") as file:
                if not _lock(file, fcntl.LOCK_SH):
                    return "running"
        if self.failure_path(run).exists():
            return "failed"
        return "broken" if log.exists() else "waiting"

    def runs(self) -> list[SweepRun]:
        """All runs ever requested in this folder.

        Raises:
          ValueError: sweep.json is damaged.
        """
        path = self.path / "sweep.json"
        if not path.exists():
            return []
        listed = read_json(path)
        try:
            if not isinstance(listed, list):
                raise TypeError(f"it holds {shortened(json.dumps(listed))}")
            return [SweepRun(**run) for run in listed]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a list of runs ({error}): move it away to start again") from error

    @contextlib.contextmanager
    def hold(self, runs: Sequence[SweepRun]) -> Generator[None]:
        """Locks the folder for one sweep, and adds its runs to the requested ones.

        The operating system releases the lock if the process is killed.

        Raises:
          ValueError: another sweep has locked it, or sweep.json is damaged. Nothing has been written then.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open_regular(self.path / ".lock", "ab") as lock:
            if not _lock(lock, fcntl.LOCK_EX):
                raise ValueError(
                    f"another sweep is working in {self.path}; wait until it ends, look at it with --status, or choose "
                    "another --out"
                )
            known = {run.identity: run for run in (*self.runs(), *runs)}
            # Runs would write through a link to elsewhere, or to no file.
            for name in FOLDERS:
                require(self.path / name, "a folder")
            for run in known.values():
                require(self.run_path(run), "a folder")
                require(self.log_path(run), "a file")
            # Written first, because it marks the folder as that of a sweep.
            write_json(self.path / "sweep.json", list(known.values()))
            for name in FOLDERS:
                (self.path / name).mkdir(exist_ok=True)
            for folder in (self.path, self.path / "failures"):
                remove_unfinished(folder)
            yield

    @contextlib.contextmanager
    def claim(self, run: SweepRun, ending: threading.Event) -> Generator[IO[str] | None]:
        """Locks one run, and yields its log, for the output of processes; None if `ending` was set before the lock.

        The run stays locked until the last of these processes has ended: if only the sweep is killed, the next one
        waits here for the processes left behind, instead of starting the run a second time.
        """
        with open_regular(self.log_path(run), "a", encoding="utf-8") as log:
            while not (held := _lock(log, fcntl.LOCK_EX)) and not ending.wait(POLL_SECONDS):
                pass
            yield log if held else None

    def record_failure(self, run: SweepRun, command: Sequence[str], status: int | str, output: str) -> None:
        """Records the failure of a run, with the command that was tried and the end of its output.

        `status` is its exit status, the negative number of a signal, or the reason in words why there is none.
        """
        failure = {
            "command": list(command),
            "exit_status": status,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "last_lines": output.splitlines()[-LAST_LINES:],
        }
        write_json(self.failure_path(run), failure)

    def failure(self, run: SweepRun) -> dict[str, Any] | None:
        """The record of a failure; None if the run has not failed."""
        path = self.failure_path(run)
        try:
            failure = read_json(path)
        except FileNotFoundError:
            return None
        if not isinstance(failure, dict) or not {"exit_status", "last_lines"} <= failure.keys():
            raise ValueError(f"{path} is not the record of a failure: delete it, and try the run again by --retry")
        return failure


def _lock(file: IO, kind: int) -> bool:
    """Whether a file could be locked at once."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
