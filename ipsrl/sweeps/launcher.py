"""The interface of launchers, which find places for runs and run them there."""

import abc
import shlex
from collections.abc import Generator, Iterator, Sequence

from ipsrl.sweeps.attempt import child_command
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun


class Launcher(abc.ABC):
    """Base of the frozen dataclasses whose fields are the arguments of `--launcher=name(argument=value, ...)`."""

    def check(self, runs: Sequence[SweepRun]) -> None:  # noqa: B027, most launchers refuse nothing
        """Raises ValueError if the runs cannot be launched like this; called before anything is written."""

    def plan(self, folder: SweepFolder, runs: Sequence[SweepRun]) -> Iterator[str]:
        """Shell lines for the work of `launch`: the place in a comment, and the command of each run."""
        yield f"# by {self}"
        for run in runs:
            yield shlex.join(child_command(folder, run))

    @abc.abstractmethod
    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Generator[tuple[SweepRun, State]]:
        """Runs all runs, and yields each with its final state, in the order in which they end.

        The sweep has locked the folder, and none of the runs is finished. Restarts are as in `attempt`.
        Closing the iterator ends the other runs, which are then broken or waiting.

        Raises:
          OSError: the folder cannot be written.
          ValueError: the launcher cannot reach the machines it launches on.
        """
