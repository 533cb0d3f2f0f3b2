"""The folder of a sweep: what has become of its runs is read from files, never remembered elsewhere.

sweep.json               all runs that were ever asked for in this folder
runs/<identity>/         what the run itself writes, see `ipsrl.records.run_folder`
logs/<identity>.log      what its processes say; whoever has it open for that holds the run
failures/<identity>.json of a run that has failed: command, status, time, last lines of the log
.lock                    held by the sweep that works here
"""

import contextlib
import dataclasses
import fcntl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, Self, get_args

from ipsrl.records.json_files import read_json, write_json
from ipsrl.records.run_folder import is_complete
from ipsrl.sweeps.sweep_runs import SweepRun

State = Literal["finished", "running", "failed", "broken", "waiting"]
STATES: tuple[State, ...] = get_args(State)
LAST_LINES = 20
# How often it is asked whether a process has ended.
POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """The folder of a sweep; made by `SweepFolder.at`.

    Attributes:
      path: the folder, absolute. It need not exist; only `hold` makes it.
    """

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> Self:
        """Raises ValueError where there are files, but none of a sweep."""
        path = Path(path).absolute()
        if path.exists() and not path.is_dir():
            raise ValueError(f"--out {path} is a file; it must be a folder")
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
        """What has become of a run.

        finished: it says itself that it is complete. running: a process works on it, of this sweep or of one that was
        killed. failed: it has ended by itself without a result. broken: it has begun, and nobody works on it. waiting:
        it has not begun.
        """
        if is_complete(self.run_path(run)):
            return "finished"
        log = self.log_path(run)
        if log.exists():
            with log.open("rb") as file:
                if not _lock(file, fcntl.LOCK_SH):
                    return "running"
        if self.failure_path(run).exists():
            return "failed"
        return "broken" if log.exists() else "waiting"

    def runs(self) -> list[SweepRun]:
        """All runs that were ever asked for here.

        Raises:
          ValueError: sweep.json is damaged.
        """
        path = self.path / "sweep.json"
        if not path.exists():
            return []
        try:
            return [SweepRun(**run) for run in read_json(path)]
        except TypeError as error:
            raise ValueError(f"{path} is no list of runs ({error}): move it away to start anew") from error

    @contextlib.contextmanager
    def hold(self, runs: Sequence[SweepRun]) -> Iterator[None]:
        """Holds the folder for one sweep, and adds its runs to those that were asked for here.

        The operating system gives it back when the process is killed.

        Raises:
          ValueError: another sweep holds it, or sweep.json is damaged. Nothing has been written then.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("a") as lock:
            if not _lock(lock, fcntl.LOCK_EX):
                raise ValueError(
                    f"another sweep is working in {self.path}; wait until it ends, look at it with --status, or choose "
                    "another --out"
                )
            known = {run.identity: run for run in (*self.runs(), *runs)}
            # First of all: it marks the folder as that of a sweep.
            write_json(self.path / "sweep.json", list(known.values()))
            for name in ("runs", "logs", "failures"):
                (self.path / name).mkdir(exist_ok=True)
            yield

    @contextlib.contextmanager
    def claim(self, run: SweepRun, ending: threading.Event) -> Iterator[IO[str] | None]:
        """Holds one run, and yields its log, to be the output of the processes that work on it.

        The run stays held until the last of these processes has ended as well: where only the sweep is killed, the
        next one waits here for what it has left behind, instead of starting the run beside it.

        Yields:
          the log; None where `ending` was set before the run could be held.
        """
        with self.log_path(run).open("a", encoding="utf-8") as log:
            while not (held := _lock(log, fcntl.LOCK_EX)) and not ending.wait(POLL_SECONDS):
                pass
            yield log if held else None

    def record_failure(self, run: SweepRun, command: Sequence[str], status: int | str, said: str) -> None:
        """Writes down that a run has failed.

        Args:
          run: the run.
          command: what was tried.
          status: exit status, the negative number of a signal, or in words why there is none.
          said: what the command has printed.
        """
        failure = {
            "command": list(command),
            "exit_status": status,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "last_lines": said.splitlines()[-LAST_LINES:],
        }
        write_json(self.failure_path(run), failure)

    def failure(self, run: SweepRun) -> dict[str, Any] | None:
        """What is known of a failure; None where the run has not failed."""
        try:
            return read_json(self.failure_path(run))
        except FileNotFoundError:
            return None


def _lock(file: IO, kind: int) -> bool:
    """Whether the lock on a file could be had at once."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
