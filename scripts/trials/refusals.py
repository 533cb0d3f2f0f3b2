"""Bad input: every command and every call of the tables in tests/hostile, and how soon a fresh process refuses."""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from trials.processes import ROOT

# Python puts the folder of a script on the path, not that of the checkout.
sys.path.append(str(ROOT))

from tests.hostile import command_trial
from tests.hostile.commands import BY_HAND

TRACEBACK, ACCEPTED = "a traceback", "it was not refused"
"""Two of the faults that `command_trial.faults` names."""


def trial(fresh: int, seed: int, work: Path) -> dict[str, Any]:
    """Tries all, and some of the commands once more, each in a new process.

    Returns:
      the numbers of commands and calls, and of those that ended in a traceback, were accepted, or were refused in
      another way than they should; the median and the longest time in seconds of a new process; and `problems`: a
      sentence for each command or call with a fault.
    """
    finished = work / "finished"
    command = [sys.executable, "-m", "experiments.two_outcomes", "--preset=smoke", "--steps=20", f"--out={finished}"]
    subprocess.run([*command, "--resume"], check=True, cwd=ROOT, capture_output=True)
    commands = [*command_trial.of_all_flags(), *BY_HAND]
    run, problems, counts = command_trial.Trials(finished), [], Counter()
    for each in commands:
        if faults := command_trial.faults(each, run.run(each)):
            counts[next((fault for fault in (TRACEBACK, ACCEPTED) if fault in faults), "otherwise")] += 1
            problems.append(f"{each}: {'; '.join(faults)}")
    # Computes already when it is imported, which the processes of the commands must not: they import this module too.
    from tests.hostile import api_trial

    api_trial.write_files(work)
    for call, message in api_trial.REFUSED:
        found = api_trial.made(call, work)
        if faults := api_trial.faults(found, message):
            counts[ACCEPTED if found.error is None else "otherwise"] += 1
            problems.append(f"{call}: {'; '.join(faults)}")
    seconds = []
    for each in random.Random(seed).sample(commands, fresh):
        started = time.monotonic()
        said = _in_new_process(each, finished, work)
        seconds.append(time.monotonic() - started)
        if faults := command_trial.faults(each, said):
            counts[next((fault for fault in (TRACEBACK, ACCEPTED) if fault in faults), "otherwise")] += 1
            problems.append(f"{each}, in a new process: {'; '.join(faults)}")
    return {
        "commands": len(commands),
        "calls": len(api_trial.REFUSED),
        "tracebacks": counts[TRACEBACK],
        "accepted": counts[ACCEPTED],
        "otherwise": counts["otherwise"],
        "fresh": fresh,
        "median": round(statistics.median(seconds), 2),
        "longest": round(max(seconds), 2),
        "problems": problems,
    }


def _in_new_process(each: command_trial.Trial, finished: Path, work: Path) -> command_trial.Said:
    empty = Path(tempfile.mkdtemp(dir=work))
    module, *arguments = command_trial.placed(each, {"@TMP": str(empty), "@RUN": str(finished)}, str(work / "out"))
    of_script = module.startswith("scripts.")
    command = [f"{module.replace('.', '/')}.py"] if of_script else ["-m", module]
    ended = subprocess.run(
        [sys.executable, *command, *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return command_trial.Said(ended.returncode, ended.stdout, tuple(sorted(map(str, empty.rglob("*")))))
