"""Launcher `local`: a pool of processes on this machine."""

import dataclasses
import functools
import itertools
import os
import threading
from collections.abc import Generator, Sequence

from ipsrl.distributed.start_up import cores
from ipsrl.sweeps.attempt import attempt, child_command
from ipsrl.sweeps.forked import call_forked, preload
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.places import work_at
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun


@dataclasses.dataclass(frozen=True)
class Local(Launcher):
    """Several runs at a time, each with its share of the cores; all share one cache of compiled programs.

    By default a share is two cores: one computes, the other does the host's work (Python, compilation, reading
    answers), which would otherwise compete with it. More and smaller shares suit runs that are mostly start-up.
    Accelerators are not divided: with GPUs, use `local(workers=1)`, or `ray`, which gives each run its own.

    Attributes:
      workers: runs at a time; 0 for one per two cores.
    """

    workers: int = 0

    def __post_init__(self):
        if not 0 <= self.workers <= cores():
            raise ValueError(f"local has workers={self.workers}: choose 1 to {cores()}, the number of cores")

    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Generator[tuple[SweepRun, State]]:
        preload({run.experiment for run in runs})

        def work(run: SweepRun, share: set[int], ending: threading.Event) -> State:
            forked = functools.partial(call_forked, cores=share)
            return attempt(folder, run, child_command(folder, run), restarts, ending, forked)

        return work_at(shares_of_cores(self.workers or max(1, cores() // 2)), runs, work)


def shares_of_cores(workers: int) -> list[set[int]]:
    """The cores of this process in even shares of neighbours; empty sets if processes cannot be bound to cores."""
    if not hasattr(os, "sched_setaffinity"):
        return [set()] * workers
    numbers = sorted(os.sched_getaffinity(0))
    bounds = [len(numbers) * worker // workers for worker in range(workers + 1)]
    return [set(numbers[begin:end]) for begin, end in itertools.pairwise(bounds)]
