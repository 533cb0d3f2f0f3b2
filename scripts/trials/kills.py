"""SIGKILL at random moments: a run that is killed and continued until its end leaves what an undisturbed one leaves."""

import dataclasses
import itertools
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trials.cases import CHILD, TOGETHER, Case
from trials.comparison import differences
from trials.processes import Command, wait_until

IN_START_UP = 0.25
"""Share of the kills before the first record is written."""
ORPHANS = 60
"""Seconds in which the other processes must end after one was killed."""
LOGS = ("*/*/*/metrics.jsonl", "runs/*/*/*/*/metrics.jsonl")


@dataclasses.dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed.

    Attributes:
      path: its folder.
      start_up: seconds from its start to its first record.
      training: seconds from there to its end.
    """

    path: Path
    start_up: float
    training: float


def undisturbed(case: Case, work: Path) -> Undisturbed:
    """Runs a case twice, and times the second, whose programs have been compiled.

    Raises:
      ValueError: a run failed, or the two differ: then nothing can be learned from kills.
    """
    case.prepare(work)
    for name in ("warm", "undisturbed"):
        path, log = work / case.name / name, work / case.name / f"{name}.log"
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        before, started = _records(path), time.monotonic()
        command = Command(case.lines(path, work), log)
        wait_until(lambda path=path, before=before, command=command: _records(path) != before or command.ended, 900)
        began = time.monotonic()
        if status := command.status():
            raise ValueError(f"{case.name}: the undisturbed run ended with status {status}: see {log}")
    if found := differences(path, work / case.name / "warm"):
        raise ValueError(f"{case.name}: two undisturbed runs differ: {'; '.join(found[:3])}")
    return Undisturbed(path, began - started, time.monotonic() - began)


def trial(case: Case, number: int, kills: int, seed: int, like: Undisturbed, work: Path) -> dict[str, Any]:
    """Kills a run several times, continues it, and compares what it leaves; or several, if the first ends too soon.

    Returns:
      the kills that were made, those before the first record of their start, how many records there were at each, how
      many runs it took, and `problems`: a sentence for each thing that should not be.
    """
    out, log = work / case.name / f"run_{number}", work / case.name / f"run_{number}.log"
    shutil.rmtree(out, ignore_errors=True)
    log.unlink(missing_ok=True)
    chance = random.Random(f"{seed} {case.name} {number}")
    # A run ends a little after its last kill.
    window = like.training * (1.0 if case.restarts_from_zero else 2.0 / kills)
    problems: list[str] = []
    runs, in_start_up, records = 1, 0, []
    command = Command(case.lines(out, work), log)
    for early, moment, victim, who in itertools.islice(_plan(chance, case), 5 * kills):
        if len(records) == kills:
            break
        if command.ended:
            if problem := _ended_alone(command):
                problems.append(problem)
            if command.status() == 0:
                # Sooner than expected: the next run is killed at shorter intervals.
                problems += differences(out, like.path)
                shutil.rmtree(out)
                runs, window = runs + 1, window / 2
            command = Command(case.lines(out, work), log)
        before = _records(out)
        if early:
            wait_until(lambda command=command: command.ended, moment * like.start_up)
        else:
            wait_until(lambda command=command, before=before: _records(out) != before or command.ended, 900)
            wait_until(lambda command=command: command.ended, moment * window)
        if command.ended:
            continue
        in_start_up += _records(out) == before
        records.append(sum(count for _, count in _records(out).values()))
        if problem := _kill(command, victim, who):
            problems.append(problem)
    status = command.status()
    # What a kill has broken, and what it has cut short, the same command continues.
    if status:
        command = Command(case.lines(out, work), log)
        status = command.status()
    if status:
        problems.append(f"the last start ended with status {status}: {(command.said().splitlines() or [''])[-1]}")
    problems += differences(out, like.path)
    if not problems:
        shutil.rmtree(out)
    return {"kills": len(records), "in_start_up": in_start_up, "records": records, "runs": runs, "problems": problems}


def _plan(chance: random.Random, case: Case) -> Iterator[tuple[bool, float, str, float]]:
    """Kills: whether before the first record, when as a share of the time, what kind of process, and which of them."""
    while True:
        yield chance.random() < IN_START_UP, chance.random(), chance.choice(case.victims), chance.random()


def _kill(command: Command, victim: str, who: float) -> str | None:
    """Kills; returns a sentence if other processes then stay."""
    if victim == CHILD and (children := command.children()):
        # The command may go on by itself.
        command.kill([children[int(who * len(children))]])
        return None
    if victim == TOGETHER:
        command.kill(command.everyone())
        return None
    command.kill([command.mains[int(who * len(command.mains))].pid])
    return _left(command)


def _left(command: Command) -> str | None:
    """Waits for the processes that are left when one is gone; returns a sentence, and kills them, if they stay."""

    def gone() -> bool:
        return all(main.poll() is not None for main in command.mains) and not command.everyone()

    if wait_until(gone, ORPHANS, every=0.2):
        return None
    staying = command.everyone()
    command.kill(staying)
    return f"{len(staying)} processes still ran {ORPHANS} seconds after another was killed"


def _ended_alone(command: Command) -> str | None:
    """A sentence if others stay after a process ended by itself, with an error or without."""
    return None if all(main.poll() is not None for main in command.mains) else _left(command)


def _records(out: Path) -> dict[Path, tuple[int, int]]:
    """For each metric log its file and how many records it holds: both change when a resumed run takes it up."""
    found = {}
    for path in (path for pattern in LOGS for path in out.glob(pattern)):
        try:
            found[path] = path.stat().st_ino, path.read_bytes().count(b"\n")
        except FileNotFoundError:
            continue
    return found
