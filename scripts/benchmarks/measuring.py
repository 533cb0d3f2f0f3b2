"""Shared parts of all benchmarks: times of neighbouring runs, the machine, and the command line."""

import argparse
import dataclasses
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import jax

FEWEST_RUNS = 5


@dataclasses.dataclass(frozen=True)
class Spread:
    """Seconds of one run.

    Attributes:
      median, shortest, longest: of all runs.
    """

    median: float
    shortest: float
    longest: float

    @classmethod
    def of(cls, times: Sequence[float]) -> "Spread":
        """The spread of some times."""
        return cls(statistics.median(times), min(times), max(times))

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.shortest:.3f} to {self.longest:.3f})"


def pairs(first: Callable, second: Callable, runs: int) -> list[tuple[float, float]]:
    """Seconds of neighbouring runs of two programs, after one to warm up.

    They swap places each time, because data left in the caches by one program helps the next.
    """
    found = []
    for number in range(runs + 1):
        times = [seconds(program) for program in ((second, first) if number % 2 else (first, second))]
        found.append(tuple(times[::-1] if number % 2 else times))
    return found[1:]


def seconds(program: Callable) -> float:
    """The seconds that one run takes."""
    started = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - started


def machine() -> dict:
    """The description of the machine, without which a time is meaningless."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load": os.getloadavg(),
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
        "devices": [device.device_kind for device in jax.devices()],
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("ipsrl", "jax", "jaxlib", "numpy")},
    }


def add_command(
    commands: argparse._SubParsersAction,
    name: str,
    run: Callable[[argparse.Namespace], dict[str, Any]],
    summary: str,
    runs: int,
    devices: int | None = None,
) -> argparse.ArgumentParser:
    """A sub-command with the options shared by all.

    Args:
      run: measures, prints a table, and returns its data.
      summary: for --help.
      runs: default number of runs.
      devices: number of devices into which this process splits its CPU; None for JAX's default.
    """
    command = commands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run, devices=devices)
    command.add_argument("--runs", type=int, default=runs, help="runs of each, by default %(default)s")
    command.add_argument("--json", type=Path, help="file for the results")
    return command


def check_runs(runs: int) -> None:
    """Raises ValueError if there are too few runs for a median."""
    if runs < FEWEST_RUNS:
        raise ValueError(f"{runs} runs are too few for a median: use at least {FEWEST_RUNS}")


def chosen(flag: str, text: str, known: Collection[str]) -> list[str]:
    """Reads the names in a flag.

    Raises:
      ValueError: a name is unknown, or given twice.
    """
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"--{flag} has {name!r}; known: {', '.join(known)}")
    if len(set(names)) < len(names):
        raise ValueError(f"--{flag} is {text!r}: a name is given twice")
    return names
