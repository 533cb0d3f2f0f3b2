"""One sweep: runs what is left by a launcher, with a progress line; and a report of its results."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence

from ipsrl.printable import printable
from ipsrl.records.progress_line import counted, drawn_line, ticking
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import STATES, State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun

# Interval at which running runs are counted: each count reads files of each run.
LOOK_SECONDS = 3.0


def to_do(folder: SweepFolder, runs: Sequence[SweepRun], retry: bool) -> list[SweepRun]:
    """The runs that are not finished, and, but with `retry`, have not failed.

    Runs still running from a killed sweep come first: they occupy the machine, and are waited for.
    """
    done = ("finished",) if retry else ("finished", "failed")
    states = {run.identity: folder.state(run) for run in counted(runs, "states read")}
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
    """Runs all unfinished runs, until the launcher can do no more for any of them, with a line on a terminal.

    Failed runs are tried again with `retry`. A run whose process is killed is started again, at most `restarts` times.
    When a run has ended, while the folder is still locked, `after_each` is called; it prints by `report_line`.

    Raises:
      ValueError: another sweep works in the folder, or the launcher cannot launch the runs. No run has been started
        then.
      OSError: the folder cannot be written. Starting the sweep again continues it.
    """
    launcher.check(runs)
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder.hold(runs))
        left = to_do(folder, runs, retry)
        if not left:
            return
        not_ended, counts = {run.identity: run for run in left}, Counter()
        line = drawn_line(
            total=len(runs),
            initial=len(runs) - len(left),
            bar_format="{percentage:3.0f}% {n_fmt}/{total_fmt} runs [{elapsed}<{remaining}{postfix}]",
        )

        def look() -> None:
            running = sum(folder.state(run) == "running" for run in list(not_ended.values()))
            shown = counts | Counter(running=running)
            line.set_postfix_str(", ".join(f"{name} {shown[name]}" for name in STATES if shown[name]), refresh=False)

        stack.enter_context(line)
        stack.enter_context(ticking(line, LOOK_SECONDS, look))
        for run, state in stack.enter_context(contextlib.closing(launcher.launch(folder, left, restarts))):
            del not_ended[run.identity]
            counts[state] += 1
            line.update()
            after_each(run, state)
        look()


def report(folder: SweepFolder, runs: Sequence[SweepRun]) -> str:
    """The number of runs in each state, and the last lines of the failed ones."""
    states = {run.identity: folder.state(run) for run in counted(runs, "states read")}
    counts = Counter(states.values())
    lines = [f"{state:8}  {counts[state]}" for state in STATES]
    for run in runs:
        failure = folder.failure(run)
        # Another sweep may be running.
        if states[run.identity] == "failed" and failure is not None:
            last_line = (failure["last_lines"] or ["nothing"])[-1]
            said = f"failed: {run.identity}, exit status {failure['exit_status']}: {last_line}"
            lines.append(printable(said, kept=""))
    return "\n".join(lines)
