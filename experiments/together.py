"""Many runs of an experiment in one process: their folders."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.launch import Output
from ipsrl.study.study import allow_open_files
from ipsrl.training.run_folder import RunFolder, RunFolderError


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
