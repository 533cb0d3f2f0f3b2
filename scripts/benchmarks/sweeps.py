"""Many seeds of an experiment as one program, beside one process for each of them."""

import argparse
import dataclasses
import functools
import itertools
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measuring
from ipsrl.distributed.start_up import cores
from ipsrl.records.json_files import read_json
from ipsrl.records.metric_log import read

EXPERIMENT, PRESET = "two_outcomes", "smoke"


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "sweeps", run, "time a sweep over seeds as one program beside a process for each seed", runs=5
    )
    command.add_argument("--seeds", type=int, default=256, help="runs of the sweep, by default %(default)s")
    command.add_argument(
        "--sample", type=int, default=8, help="number of processes that are timed; by default %(default)s"
    )
    command.add_argument("--all", action="store_true", help="time all processes, and everything once instead of --runs")
    command.add_argument("--at_once", type=int, default=cores(), help="processes at a time, by default one per core")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    sample = arguments.seeds if arguments.all else arguments.sample
    timing = time_sweeps(arguments.seeds, sample, arguments.at_once, None if arguments.all else arguments.runs)
    print(f"{timing.seeds} seeds of {EXPERIMENT}, preset {PRESET}; seconds: median (shortest to longest)")
    print(f"scripts/sweep.py --launcher=vmap   {timing.together}")
    estimate = f", times {timing.seeds / timing.sample:g}" if timing.sample < timing.seeds else ""
    print(f"{timing.sample} processes, {timing.at_once} at a time    {timing.apart}{estimate}")
    print(f"ratio {timing.ratio:.1f}; metrics of {timing.sample} runs differ by {timing.difference:.2g} at most")
    return {"sweeps": timing}


@dataclasses.dataclass(frozen=True)
class SweepTiming:
    """A sweep over seeds in both ways.

    Attributes:
      seeds: runs of the sweep.
      sample: number of seeds timed as processes.
      at_once: number of processes at a time.
      together: seconds of the command that runs all seeds as one program.
      apart: seconds of the sampled processes.
      ratio: of `apart` times seeds / sample to `together`, median over neighbouring runs.
      difference: the largest difference of a metric between a run in the program and the same run as a process.
    """

    seeds: int
    sample: int
    at_once: int
    together: measuring.Spread
    apart: measuring.Spread
    ratio: float
    difference: float


def time_sweeps(seeds: int, sample: int, at_once: int, runs: int | None) -> SweepTiming:
    """Times both alternately: `runs` times, or once if `runs` is None.

    Raises:
      ValueError: a number is invalid, or a command fails.
    """
    if runs is not None:
        measuring.check_runs(runs)
    for flag, value in (("seeds", seeds), ("sample", sample), ("at_once", at_once)):
        if value < 1:
            raise ValueError(f"--{flag} is {value}, it must be at least 1")
    if sample > seeds:
        raise ValueError(f"--sample is {sample}, it must be at most {seeds}, the number of --seeds")
    with tempfile.TemporaryDirectory() as name:
        folders = (Path(name, str(number)) for number in itertools.count())
        last = {}

        def together():
            last["together"] = next(folders)
            grid = f"seeds=0:{seeds}"
            command = ["scripts/sweep.py", f"--experiment={EXPERIMENT}", f"--preset={PRESET}", f"--grid={grid}"]
            finish(*command, "--launcher=vmap", f"--out={last['together']}")

        def process(folder, seed):
            command = ["-m", f"experiments.{EXPERIMENT}", f"--preset={PRESET}", f"--seeds={seed}"]
            finish(*command, f"--out={folder / str(seed)}")

        def apart():
            last["apart"] = next(folders)
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(functools.partial(process, last["apart"]), range(sample)))

        if runs is None:
            # Warm-up.
            together()
            process(next(folders), 0)
            times = [(measuring.seconds(together), measuring.seconds(apart))]
        else:
            times = measuring.pairs(together, apart, runs)
        difference = largest_difference(last["together"], last["apart"])
    ratio = statistics.median(slow * seeds / sample / fast for fast, slow in times)
    spreads = [measuring.Spread.of(column) for column in zip(*times, strict=True)]
    return SweepTiming(seeds, sample, at_once, *spreads, ratio, difference)


def finish(*arguments: str) -> None:
    """Runs a Python command to its end, from the root of the repository."""
    root = Path(__file__).parents[2]
    finished = subprocess.run([sys.executable, *arguments], cwd=root, capture_output=True, text=True)
    if finished.returncode:
        lines = finished.stderr.strip().splitlines() or ["nothing"]
        raise ValueError(f"{' '.join(arguments)} ended with status {finished.returncode} and said: {lines[-1]}")


def largest_difference(together: Path, apart: Path) -> float:
    """The largest difference between metrics of runs with the same seed; NaN if one of them lacks a number."""
    by_seed = {read_json(config)["seeds"]: config.parent for config in together.rglob("config.json")}
    largest = 0.0
    for folder in apart.iterdir():
        ours, theirs = (_numbers(path / "metrics.jsonl") for path in (by_seed[folder.name], folder))
        if ours.shape != theirs.shape:
            return float("nan")
        missing_in_both = np.isnan(ours) & np.isnan(theirs)
        largest = np.maximum(largest, np.abs(ours - theirs)[~missing_in_both].max())
    return float(largest)


def _numbers(log: Path) -> np.ndarray:
    return np.array([[value for value in record.values() if not isinstance(value, str)] for record in read(log)])
