"""Commands under trial: what they start is found, killed and awaited, also what has left their group."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "IPSRL_TRIAL"
HANGS = 900
"""Seconds after which a command counts as hanging."""


class Command:
    """One start of one or more processes that run together; what they start inherits a mark, by which it is found.

    Args:
      lines: arguments of each process.
      log: receives what they print, after what is there.
    """

    def __init__(self, lines: Sequence[Sequence[str]], log: Path):
        self.mark = uuid.uuid4().hex
        self.log = log
        paths = os.pathsep.join((str(ROOT), str(ROOT / "scripts")))
        environment = os.environ | {MARK: self.mark, "PYTHONPATH": paths}
        with log.open("a") as out:
            self.begins_in_log = out.tell()
            self.mains = [
                subprocess.Popen(line, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
                for line in lines
            ]

    @property
    def ended(self) -> bool:
        """Whether a process of the command has ended."""
        return any(main.poll() is not None for main in self.mains)

    def status(self) -> int:
        """Waits for all; returns the first exit status that is not 0. Kills what hangs, whose status is -9 then."""
        wait_until(lambda: all(main.poll() is not None for main in self.mains), HANGS)
        self.kill(self.everyone())
        return next((main.wait() for main in self.mains if main.wait()), 0)

    def everyone(self) -> list[int]:
        """The processes of the command and all that they have started, as far as they live."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._is_ours(path)]

    def children(self) -> list[int]:
        """`everyone` but the processes of the command itself."""
        return sorted(set(self.everyone()) - {main.pid for main in self.mains})

    def kill(self, processes: Sequence[int]) -> None:
        """SIGKILL. The processes of the command itself are gone when this returns."""
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for main in self.mains:
            if main.pid in processes:
                main.wait()

    def said(self) -> str:
        """The text that this start has printed."""
        with self.log.open("rb") as file:
            file.seek(self.begins_in_log)
            return file.read().decode(errors="replace")

    def _is_ours(self, path: Path) -> bool:
        try:
            # Of a zombie it is empty.
            return f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes().split(b"\0")
        except OSError:
            return False


def python(*arguments: str | Path) -> list[str]:
    """The arguments of a process that runs Python."""
    return [sys.executable, "-u", *map(str, arguments)]


def wait_until(happened: Callable[[], bool], seconds: float, every: float = 0.02) -> bool:
    """Waits; returns whether it happened in this time."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
