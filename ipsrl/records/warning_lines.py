"""The warnings of many runs on the terminal: a short line for each kind, and at the end a table with advice."""

import os
import re
from contextlib import AbstractContextManager
from pathlib import Path

from ipsrl.records.monitors import Finding, Monitor
from ipsrl.records.progress_line import report_line
from ipsrl.text_table import aligned

_SEED = re.compile(r"(seeds?[_=])\d+")


class WarningLines(AbstractContextManager["WarningLines"]):
    """Prints each kind of warning once while runs train, and at the end how many runs had it.

    A kind is a monitor and all runs whose folders differ only in their seeds: `grpo/seed_0` and `grpo/seed_1`. The full
    warnings of each run are in its warnings.jsonl.

    A context manager, which prints the table at its end. Warnings may come from several threads. The names of runs are
    their folders relative to `root`.
    """

    def __init__(self, root: str | Path = "."):
        self._root = Path(root)
        # (runs that differ only in their seeds, monitor) -> step of the first warning of each run.
        self._steps: dict[tuple[str, str], dict[str, int]] = {}
        self._advice: dict[str, str] = {}

    def warn(self, run: Path, step: int, name: str, monitor: Monitor, finding: Finding) -> None:
        """Takes a monitor's warning of the run in the folder `run`, and prints it if it is the first of its kind."""
        shown = os.path.relpath(run, self._root)
        self._advice[name] = monitor.advice
        steps = self._steps.setdefault((_SEED.sub(r"\1*", shown), name), {})
        if not steps:
            report_line(f"{shown} step {step}: {name} {finding.short}")
        steps.setdefault(shown, step)

    def table(self) -> str:
        """Runs by monitors: the number of runs with a warning and its first step, then advice; empty without warnings.

        Runs that differ only in their seeds share a line, as in

            warnings     low_entropy        falling_outcomes
            grpo/seed_*  3 from step 63     2 from step 93
        """
        if not self._steps:
            return ""
        monitors = list(self._advice)
        rows = [["warnings", *monitors]]
        for runs in dict.fromkeys(runs for runs, _ in self._steps):
            found = [self._steps.get((runs, name), {}) for name in monitors]
            only = {run for steps in found for run in steps}
            rows.append([only.pop() if len(only) == 1 else runs, *map(_cell, found)])
        return "\n".join([aligned(rows), *(f"{name}: {advice}" for name, advice in self._advice.items())])

    def __exit__(self, *exception: object) -> None:
        if table := self.table():
            report_line(table)


def _cell(steps: dict[str, int]) -> str:
    if not steps:
        return "-"
    first = f"step {min(steps.values())}"
    return first if len(steps) == 1 else f"{len(steps)} from {first}"
