"""Launcher `vmap`: runs that differ only in certain numbers as one compiled program, in this process."""

import contextlib
import dataclasses
import json
import resource
import threading
import traceback
from collections.abc import Generator, Iterator, Sequence

from ipsrl.distributed.start_up import cores, start_up
from ipsrl.records.run_folder import is_complete
from ipsrl.records.trackers import read_trackers
from ipsrl.study import catalog
from ipsrl.study.curves import Output
from ipsrl.study.study import run_vmapped
from ipsrl.sweeps.attempt import child_command
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun, settings_of


@dataclasses.dataclass(frozen=True)
class Vmap(Launcher):
    """Groups the runs that can share one program of their experiment, and runs group by group.

    The module of the study names the fields of its settings that may differ in `VMAPPED`, and has a function `vmapped`.
    """

    def check(self, runs: Sequence[SweepRun]) -> None:
        for experiment in {run.experiment for run in runs}:
            if not catalog.find(experiment).vmapped:
                raise ValueError(f"{experiment} has no VMAPPED, so its runs cannot be one program: use local")

    def plan(self, folder: SweepFolder, runs: Sequence[SweepRun]) -> Iterator[str]:
        for group in groups(runs):
            yield f"in one program: {', '.join(run.identity for run in group)}"

    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Generator[tuple[SweepRun, State]]:
        # Every run holds some files open, and the usual 1024 are soon used up.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        # Runs are divided among devices; on a CPU each core is one.
        start_up(cores())
        for group in groups(runs):
            yield from _launch_group(folder, group)


def groups(runs: Sequence[SweepRun]) -> list[list[SweepRun]]:
    """The runs in groups that can each be one program, in the order of their first runs."""
    grouped: dict[str, list[SweepRun]] = {}
    for run in runs:
        vmapped = catalog.find(run.experiment).vmapped
        common = {name: value for name, value in dataclasses.asdict(settings_of(run)).items() if name not in vmapped}
        grouped.setdefault(json.dumps([run.experiment, run.tracker, common], sort_keys=True), []).append(run)
    return list(grouped.values())


def _launch_group(folder: SweepFolder, group: Sequence[SweepRun]) -> Generator[tuple[SweepRun, State]]:
    never = threading.Event()
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(folder.claim(run, never)) for run in group]
        for log in logs:
            print(
                f"one of {len(group)} runs in one program, which prints to the sweep's terminal", file=log, flush=True
            )
        # Processes of an earlier sweep may have finished some runs during the wait.
        left = [run for run in group if not is_complete(folder.run_path(run))]
        for run in left:
            folder.failure_path(run).unlink(missing_ok=True)
        settings = [settings_of(run) for run in left]
        outputs = [Output(folder.run_path(run), True, read_trackers(run.tracker)) for run in left]
        try:
            study, presets = catalog.find(group[0].experiment), [run.preset for run in left]
            ends = run_vmapped(study, settings, presets, outputs) if left else []
        except (ValueError, RuntimeError) as error:
            # The group cannot run like this: bad input, or too little memory.
            ends = [error] * len(left)
        for run, error in zip(left, ends, strict=True):
            if error is not None:
                output = "".join(traceback.format_exception_only(error))
                folder.record_failure(run, child_command(folder, run), "none, in one program", output)
    for run in group:
        yield run, folder.state(run)
