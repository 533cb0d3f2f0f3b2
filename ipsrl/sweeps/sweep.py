"""One sweep: what there is to do, by a launcher, with a line that says how far it is; and what has come out."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence

from tqdm import tqdm

from ipsrl.records.progress_line import ticking
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import STATES, State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun

# How often the runs that are at work are counted while others wait for them: each costs a look at its files.
LOOK_SECONDS = 3.0


def to_do(folder: SweepFolder, runs: Sequence[SweepRun], retry: bool) -> list[SweepRun]:
    """The runs that are not finished, and, but with `retry`, have not failed.

    Those that a killed sweep has left at work come first: they have the machine already, and are waited for.
    """
    done = ("finished",) if retry else ("finished", "failed")
    states = {run.identity: folder.state(run) for run in runs}
    left = [run for run in runs if states[run.identity] not in done]
    return sorted(left, key=lambda run: states[run.identity] != "running")


def sweep(
    folder: SweepFolder,
    runs: Sequence[SweepRun],
    launcher: Launcher,
    retry: bool,
    restarts: int,
    after_each: Callable[[SweepRun, State], None] = lambda run, state: None,
) -> None:
    """Works on all runs that are left to do, until the launcher can do no more for any of them.

    Args:
      folder: where to; no other sweep may work in it.
      runs: all that are asked for.
      launcher: where they are run.
      retry: whether failed runs are tried again.
      restarts: how often a run whose process is killed is started again.
      after_each: called when a run has ended, while the folder is still held; prints by `progress_line.say`.

    Raises:
      ValueError: another sweep works in the folder, or the launcher cannot launch the runs. None has been started then.
      OSError: the folder cannot be written. The same sweep again takes up what there is.
    """
    launcher.check(runs)
    with folder.hold(runs):
        left = to_do(folder, runs, retry)
        if left:
            _work(folder, left, launcher, restarts, after_each, already=len(runs) - len(left))


def _work(
    folder: SweepFolder,
    left: Sequence[SweepRun],
    launcher: Launcher,
    restarts: int,
    after_each: Callable[[SweepRun, State], None],
    already: int,
) -> None:
    """Launches runs and shows the line, which is silent where stderr is not a terminal."""
    not_ended = {run.identity: run for run in left}
    counts = Counter()
    line = tqdm(
        total=already + len(left),
        initial=already,
        disable=None,
        dynamic_ncols=True,
        bar_format="{percentage:3.0f}% {n_fmt}/{total_fmt} runs [{elapsed}<{remaining}{postfix}]",
    )

    def look() -> None:
        running = sum(folder.state(run) == "running" for run in list(not_ended.values()))
        shown = counts | Counter(running=running)
        line.set_postfix_str(", ".join(f"{name} {shown[name]}" for name in STATES if shown[name]), refresh=False)

    with line, ticking(line, LOOK_SECONDS, look), contextlib.closing(launcher.launch(folder, left, restarts)) as ended:
        for run, state in ended:
            del not_ended[run.identity]
            counts[state] += 1
            line.update()
            after_each(run, state)
        look()


def report(folder: SweepFolder, runs: Sequence[SweepRun]) -> str:
    """How many runs are in which state, and what the failed ones have said last."""
    states = {run.identity: folder.state(run) for run in runs}
    counts = Counter(states.values())
    lines = [f"{state:8}  {counts[state]}" for state in STATES]
    for run in runs:
        failure = folder.failure(run)
        # Another sweep may be at work meanwhile.
        if states[run.identity] == "failed" and failure is not None:
            said = (failure["last_lines"] or ["nothing"])[-1]
            lines.append(f"failed: {run.identity}, exit status {failure['exit_status']}: {said}")
    return "\n".join(lines)
