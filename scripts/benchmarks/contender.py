"""Competing programs, each in its own process with its own libraries; they work one at a time, on request.

When ready, a contender describes itself in one line of JSON; then for every line that it reads it does one step and
reports the result. This module needs only Python: both sides use it.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def serve(description: dict[str, Any], step: Callable[[], dict[str, Any]]) -> None:
    """The contender's side: answers requests until there are no more.

    Args:
      description: values to compare, such as versions and the number of parameters, as JSON.
      step: does a whole step, waits until it is done, and returns its report.
    """
    # Libraries may print anything: answers go to the original stdout, all else to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(description), file=answers, flush=True)
    for _ in sys.stdin:
        report, spent = timed(step)
        print(json.dumps({**spent, **report}), file=answers, flush=True)


def timed(function: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result of a function, its `seconds`, and the `cpu_seconds` of this process meanwhile."""
    started, of_cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - of_cpu}


@dataclasses.dataclass
class Contender:
    """The other side: starts the program, and requests steps.

    Attributes:
      name: for messages.
      command: of the program.
      environment: variables added to those of this process.
      description: the program's description of itself.
      first: report of its first step.
      first_step: seconds from its start to the end of that step.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    description: dict[str, Any] = dataclasses.field(init=False)
    first: dict[str, Any] = dataclasses.field(init=False)
    first_step: float = dataclasses.field(init=False)

    def __enter__(self) -> "Contender":
        started = time.perf_counter()
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | self.environment
        )
        try:
            self.description = self._hear()
            self.first = self.step()
        except BaseException:
            self._process.kill()
            self.__exit__()
            raise
        self.first_step = time.perf_counter() - started
        return self

    def __exit__(self, *exception) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def step(self) -> dict[str, Any]:
        """One step; its `seconds` and `cpu_seconds`, and the program's report.

        Raises:
          ValueError: the program has ended.
        """
        # If the program has ended, writing fails too; reading then reports its end.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("step\n")
            self._process.stdin.flush()
        return self._hear()

    def peak_memory(self) -> float | None:
        """Peak memory in MiB; None if the system does not report it."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return None
        sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(sizes[0]) / 1024 if sizes else None

    def _hear(self) -> dict[str, Any]:
        answer = self._process.stdout.readline()
        if not answer:
            raise ValueError(f"{self.name} has ended with status {self._process.wait()}: its last output is above")
        return json.loads(answer)
