"""Commands with bad input: a few for every flag of every study, by its type, and those written by hand."""

import dataclasses
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ipsrl.study import catalog
from ipsrl.study.settings import KINDS, kinds_of
from ipsrl.sweeps.forked import SERVER, call_forked, preload

DEEP = f"grpo(kl={'k3(' * 2000}1{')' * 2000})"
BAD: dict[object, tuple[str, ...]] = {
    KINDS[int]: ("x", "1.5", "", "1e9", "0x"),
    KINDS[float]: ("x", "nan", "-inf", "1e300", ""),
    KINDS[bool]: ("maybe", "2"),
    KINDS[tuple[int, ...]]: ("0:x", "0:2000000000", "3:1", "1,,2"),
    KINDS[tuple[float, ...]]: ("1,nan", "1,,2", "1e-300", "a"),
    KINDS[tuple[str, ...]]: ("grpo(", "grpo(**x)", "1+1", DEEP),
    KINDS[tuple[tuple[float, ...], ...]]: ("1,nan;1,1", ";;", "x"),
}
"""For each type of flags texts that are none of it."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """A command that must be refused.

    Attributes:
      arguments: of `python -m`; `@TMP` stands for an empty folder, `@RUN` for the folder of a finished run.
      message: a pattern that is found in what it says.
      seconds: until it has ended, imports aside.
    """

    arguments: tuple[str, ...]
    message: str
    seconds: float = 10.0

    def __str__(self) -> str:
        return " ".join(argument if len(argument) < 80 else f"{argument[:80]}..." for argument in self.arguments)


@dataclasses.dataclass(frozen=True)
class Said:
    """What a command said, its exit status, and how long it took."""

    status: int
    text: str
    seconds: float


def of_flags(name: str) -> Iterator[Trial]:
    """For every flag of a study texts that are not of its type."""
    study = catalog.find(name)
    for flag, kind in kinds_of(type(study.presets["smoke"])).items():
        for text in BAD.get(kind, ()):
            yield Trial((study.module.__name__, "--preset=smoke", f"--{flag}={text}"), rf"--{flag}\b")


def of_all_flags() -> dict[str, list[Trial]]:
    """Those of all studies."""
    return {name: list(of_flags(name)) for name in catalog.names()}


def placed(trial: Trial, places: Mapping[str, str], out: str) -> list[str]:
    """The arguments with paths for `@TMP` and `@RUN`; of a study with its --out."""
    arguments = [re.sub("@TMP|@RUN", lambda match: places[match[0]], part) for part in trial.arguments]
    return [*arguments, f"--out={out}"] if trial.arguments[0].startswith("experiments.") else arguments


class Trials:
    """Runs commands in processes that are forked from one that has imported all studies.

    Args:
      run: the folder of a finished run.
    """

    def __init__(self, run: Path):
        preload(catalog.names())
        # The imports are no part of the time of the first command.
        server = SERVER.Process(target=time.monotonic)
        server.start()
        server.join()
        self._finished = run

    def run(self, trial: Trial) -> Said:
        """Runs a command until it has ended, or for four times as long as it may take."""
        ending, started = threading.Event(), time.monotonic()
        timer = threading.Timer(4 * trial.seconds, ending.set)
        timer.start()
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+") as log:
            (Path(folder) / "empty").mkdir()
            arguments = placed(trial, {"@TMP": f"{folder}/empty", "@RUN": str(self._finished)}, f"{folder}/out")
            status = call_forked(["python", "-m", *arguments], log, ending, set())
            timer.cancel()
            log.seek(0)
            _, _, text = log.read().partition("\n")
        return Said(status, text, time.monotonic() - started)


def faults(trial: Trial, said: Said) -> list[str]:
    """What is wrong with an answer; empty if the command was refused as it must be."""
    lines = said.text.strip().splitlines() or [""]
    # Before its sentence, argparse shows how a script is used.
    last = re.sub(r"^\w+\.py: ", "", lines[-1]) if lines[0].startswith("usage: ") else lines[-1]
    found = {
        "it was not refused": said.status == 0,
        "it ended by a signal": said.status < 0,
        "a traceback": "Traceback" in said.text,
        f"it said {len(lines)} lines": len(lines) > 1 and last == lines[-1],
        f"it said {lines[-1][:200]!r}": not re.match("error: ", last) or not re.search(trial.message, last),
        f"it took {said.seconds:.1f} s": said.seconds > trial.seconds,
        "its sentence has more than 600 characters": len(last) > 600,
    }
    return [fault for fault, holds in found.items() if holds]
