"""Commands with bad input: a few for every flag of every study and script, by its type, and those written by hand."""

import argparse
import dataclasses
import importlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from absl import flags

from ipsrl.study import catalog
from ipsrl.study.command_line import FORMER_NAMES, CommandLine
from ipsrl.study.settings import KINDS, Kind, kinds_of
from ipsrl.study.study import Study
from ipsrl.sweeps.forked import SERVER, run_module
from tests.hangs import HANGS

DEEP = f"grpo(kl={'k3(' * 2000}1{')' * 2000})"
BAD: dict[object, tuple[str, ...]] = {
    KINDS[int]: ("x", "1.5", "", "1e9", "0x"),
    KINDS[float]: ("x", "nan", "-inf", "1e300", ""),
    KINDS[bool]: ("maybe", "2"),
    KINDS[str]: ("@RUN/config.json/x", "nope("),
    KINDS[tuple[int, ...]]: ("0:x", "0:2000000000", "3:1", "1,,2", ""),
    KINDS[tuple[float, ...]]: ("1,nan", "1,,2", "1e-300", "a", ""),
    KINDS[tuple[str, ...]]: ("grpo(", "grpo(**x)", "1+1", DEEP, ""),
    KINDS[tuple[tuple[float, ...], ...]]: ("1,nan;1,1", ";;", "x", ""),
}
"""Type of flags -> texts that are not of this type; for texts, neither a path nor the name of anything."""
ANY_TEXT = ("system_prompt", "beginning", "title", "help", "sql")
"""Flags that are not tried: without a bad text, or by hand."""
READ_LATER = ("--model_dir=", "--optimizer=", "--extensions=")
"""Flags whose texts are read where they are used."""
OF_ALL_STUDIES = "hypospace"
"""A study with all flags that are no settings, which are the same in each."""
FURTHER = {"math_answers": ("--data=math_answers(builder=none)", "--evaluation_data=math_answers(builder=none)")}
"""Study -> flags that it requires before it looks at the flag that is tried."""
SCRIPTS: dict[str, tuple[str, ...]] = {
    "answer_frames": (),
    "audit_verifier": ("@RUN/metrics.jsonl",),
    "benchmark": (),
    "claims_table": (),
    "import_gguf": ("--gguf=@RUN/config.json", "--out=@TMP/model"),
    "make_checkpoint": ("--out=@TMP/model",),
    "make_molecules": ("--out=@TMP/molecules",),
    "make_questions": ("--out=@TMP/questions",),
    "objectives_table": (),
    "plant_faults": (),
    "reliability": ("--only=long_run", "--work=@TMP/work", "--results=@TMP/results.json"),
    "report": ("@RUN", "--out=@TMP/report.html"),
    "reproduce_figures": ("--only=verdicts", "--preset=smoke", "--out=@TMP/figures"),
    "results": ("@RUN",),
    "scaling": (),
    "sweep": ("--experiment=two_outcomes", "--preset=smoke", "--grid=seeds=0", "--out=@TMP/sweep"),
}
"""The scripts, each with arguments to which one of its flags is added."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """A command that must be refused.

    Attributes:
      arguments: of `python -m`; `@TMP` stands for an empty folder, `@RUN` for the folder of a finished run.
      message: a pattern that is found in what it says.
    """

    arguments: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        return " ".join(argument if len(argument) < 80 else f"{argument[:80]}..." for argument in self.arguments)


@dataclasses.dataclass(frozen=True)
class Said:
    """The outcome of a command: exit status, printed text, and the files that it has left or changed."""

    status: int
    text: str
    left: tuple[str, ...]


def of_flags(name: str) -> Iterator[Trial]:
    """Trials of every flag of a study with texts that are not of its type."""
    study = catalog.find(name)
    settings = type(study.presets["smoke"])
    may_be_empty = {field.name for field in dataclasses.fields(settings) if field.default == ()}
    for flag, kind in {**kinds_of(settings), **(_further_flags(study) if name == OF_ALL_STUDIES else {})}.items():
        for text in BAD[kind] if flag not in ANY_TEXT else ():
            if text or flag not in may_be_empty:
                command = (study.module.__name__, "--preset=smoke", *FURTHER.get(name, ()), f"--{flag}={text}")
                yield Trial(command, _names(flag, kind))
        if kind is KINDS[bool]:
            yield Trial((study.module.__name__, f"--no{flag}=x"), rf"--no{flag}\b")


def _further_flags(study: Study) -> dict[str, Kind]:
    """The flags of a study that are no settings, with their types."""
    values = flags.FlagValues()
    CommandLine(study.name, study.presets, study.many_hosts, study.trackers, values)
    types = {"bool": bool, "int": int, "string": str}
    # --out is that of the trial itself; of a former name the sentence says today's.
    return {name: KINDS[types[values[name].flag_type()]] for name in values if name not in ("out", *FORMER_NAMES)}


def of_script(name: str) -> Iterator[Trial]:
    """A trial of every flag of a script with a text that is not of its type: `int` itself reads all whole numbers."""
    yield from _of_parser(importlib.import_module(f"scripts.{name}").parser(), (f"scripts.{name}", *SCRIPTS[name]))


def _of_parser(parser: argparse.ArgumentParser, command: tuple[str, ...]) -> Iterator[Trial]:
    # argparse has no other way to ask for the flags.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, of_word in action.choices.items():
                yield from _of_parser(of_word, (*command, word))
        flag, kind = action.dest, KINDS[action.type if action.type in KINDS else str]
        if action.option_strings and flag not in ANY_TEXT:
            yield Trial((*command, f"--{flag}={BAD[kind][0]}"), _names(flag, kind))


def _names(flag: str, kind: Kind) -> str:
    """A pattern: what reads a text says what it is, without the flag."""
    return rf"\b{flag}\b|config\.json|nope" if kind is KINDS[str] else rf"--{flag}\b"


def of_all_flags() -> list[Trial]:
    """Trials of all flags of all studies and scripts."""
    studies = [trial for name in catalog.names() for trial in of_flags(name)]
    return studies + [trial for name in SCRIPTS for trial in of_script(name)]


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
        SERVER.set_forkserver_preload([*map(catalog.module_name, catalog.names()), "tests.hostile.script_definitions"])
        self._finished, self._before = run, _contents(run)

    def run(self, trial: Trial) -> Said:
        """Runs a command until it has ended; one that hangs is ended by a signal."""
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+") as log:
            (Path(folder) / "empty").mkdir()
            arguments = placed(trial, {"@TMP": f"{folder}/empty", "@RUN": str(self._finished)}, f"{folder}/out")
            with Connection(os.dup(log.fileno())) as output:
                process = SERVER.Process(target=run_module, args=(arguments, output, set()))
                process.start()
            process.join(HANGS)
            process.kill()
            process.join()
            log.seek(0)
            text = log.read()
            left = {*_contents(Path(folder) / "empty"), *_contents(self._finished) ^ self._before}
        return Said(process.exitcode, text, tuple(sorted(name for name, _ in left)))


def _contents(folder: Path) -> set[tuple[str, bytes]]:
    """All that is in a folder: path and content; that of a folder is empty."""
    return {(str(path), path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")}


def faults(trial: Trial, said: Said) -> list[str]:
    """Faults in an answer; none if the command was refused as it must be."""
    lines = said.text.strip().splitlines() or [""]
    # Before its sentence, argparse shows how a script is used.
    last = lines[-1]
    if lines[0].startswith("usage: "):
        last = re.sub(r"^(\w+\.py( \w+)?|python -m experiments): ", "", last)
    found = {
        "it was not refused": said.status == 0,
        "it ended by a signal": said.status < 0,
        "a traceback": "Traceback" in said.text,
        f"it said {len(lines)} lines": len(lines) > 1 and last == lines[-1],
        f"it said {lines[-1][:200]!r}": not re.match("error: ", last) or not re.search(trial.message, last),
        "its sentence has more than 600 characters": len(last) > 600,
        f"it left {', '.join(said.left)}": bool(said.left),
    }
    return [fault for fault, holds in found.items() if holds]
