"""Many runs of an experiment in one process: what `run_together` of the experiments shares.

An experiment that can do it has `TOGETHER`, the names of the settings in which the runs of one program may differ, and
`run_together`, which leaves in the folder of each what `run` would, checkpoints excepted.
"""

import contextlib
import resource
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.grid import Run, TrainingGrid, run_path
from experiments.launch import Output
from ipsrl import objectives as objective_catalog
from ipsrl.training import metric_log
from ipsrl.training.evaluation import Evaluate
from ipsrl.training.progress_line import say
from ipsrl.training.run_folder import RunFolder, RunFolderError
from ipsrl.training.run_log import NonFiniteLossError
from ipsrl.training.together import train_together


@contextlib.contextmanager
def take_folders(
    configs: Sequence[Mapping[str, Any]], outputs: Sequence[Output]
) -> Iterator[tuple[dict[int, RunFolder], list[Exception | None]]]:
    """Holds the folders of all runs: by their numbers those that can be used, and for each run why its one cannot."""
    allow_open_files()
    folders, failures = {}, [None] * len(outputs)
    with contextlib.ExitStack() as stack:
        for run, (config, output) in enumerate(zip(configs, outputs, strict=True)):
            try:
                folders[run] = stack.enter_context(RunFolder.open(output.path, config, output.resume))
            except RunFolderError as error:
                failures[run] = error
        yield folders, failures


def train_grids(
    grids: Sequence[TrainingGrid], outputs: Sequence[Output], evaluate: Evaluate | None = None
) -> tuple[list[list[Run]], list[Exception | None]]:
    """Trains grids that differ in their seeds and learning rates alone, all runs with an objective as one program.

    Args:
      grids, outputs: as many; each run has a folder of its own in its output, as `TrainingGrid.train` makes it, but
        without checkpoints: what is there of a run is made again. All have the mirrors of the first output.
      evaluate: as in `ipsrl.training.together.train_together`.

    Returns:
      for each grid its finished runs, and what ended it, which leaves it without those that would follow; None where
      all of them are finished.
    """
    shared = grids[0]
    finished, failures = [[] for _ in grids], [None] * len(grids)
    for text in shared.objectives:
        members = [(number, seed) for number, grid in enumerate(grids) if not failures[number] for seed in grid.seeds]
        configs = [grids[number].config(text, seed) for number, seed in members]
        places = [Output(run_path(outputs[number], text, seed), outputs[number].resume) for number, seed in members]
        with take_folders(configs, places) as (folders, refusals):
            for (number, _), refusal in zip(members, refusals, strict=True):
                failures[number] = failures[number] or refusal
            taken = [(*members[run], folder) for run, folder in folders.items()]
            if not taken:
                continue
            results = train_together(
                shared.environment,
                shared.policy,
                objective_catalog.make(text),
                [grids[number].settings for number, _, _ in taken],
                [seed for _, seed, _ in taken],
                [folder for _, _, folder in taken],
                evaluate,
                outputs[0].mirrors,
            )
            for (number, seed, folder), result in zip(taken, results, strict=True):
                if isinstance(result, NonFiniteLossError):
                    failures[number] = failures[number] or result
                    continue
                records = metric_log.read(folder.metrics_path)
                folder.write_summary(records[-1])
                finished[number].append(Run(text, seed, records, folder.path, result))
        say(f"trained {text}, {len(taken)} runs together")
    return finished, failures


def allow_open_files() -> None:
    """Lets this process open as many files as the system allows: every run holds some, and 1024 are soon gone."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
