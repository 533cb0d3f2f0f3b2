"""A study is one module: a claim of the field, and a small experiment that shows or refutes it.

    \"\"\"One line on what it shows.

    Claim     What is claimed.
    Paper     Where; what of it is our reading.
    Arms      What is compared with what, and the placebos.
    Command   python -m experiments.NAME
    Time      of each preset, and on what hardware.
    Expected  at most five numbers with their tolerance, by which a rerun is recognised.
    Doubt     What would change our mind.
    Smoke     python -m experiments.NAME --preset=smoke
    \"\"\"

    @dataclasses.dataclass(frozen=True)
    class Settings(study.Settings): ...                # flags, with types and ranges: `ipsrl.study.settings`

    PRESETS = {"smoke": Settings(...), "demo": Settings(), "paper": Settings(...)}

    def curves(settings) -> Curves: ...                # labels and how to compute the points: `ipsrl.study.curves`

    CLAIMS = {"sentence": above(final("x", arm="a"), 0.5)}   # true, false or undecided: `ipsrl.study.claims`
    NUMBERS = {"label": final("x", arm="b")}           # the main numbers: `ipsrl.study.numbers`
    PAPER = {"label": 0.028}                           # the same numbers in the paper, by the same labels
    TABLE = Table({"value": "heading"})                # `ipsrl.study.pages.tables`; all values by default
    FIGURE = Panels(...)                               # `ipsrl.figures.panels`, or a function; may be None

    if __name__ == "__main__":
        main(__name__)

A study in `experiments/` also has Arms and Doubt in its header, and

    HEADLINE = Headline(subject, claim, scope, decided_by)   # `ipsrl.study.pages.claim_pages`

It is a folder, in which published runs of its first figure keep `result.json`, and has a page in docs/claims.

The figure is OUT/NAME.png, .pdf and .csv, and its caption OUT/NAME.txt; OUT is `runs/NAME-PRESET` by default.

Optional: VARIANTS (several figures or tables from one module), `documents(records, settings, png)`, which writes
pages and pictures elsewhere and returns their paths, VMAPPED and `vmapped` (many settings as one program, for the
launcher `vmap` of sweeps), MANY_HOSTS = True (the flag --multihost), TRACKERS = True (the flag --tracker) and NEEDS
(packages of extras without which nothing can be computed, by their names in `ipsrl.extras`).
"""

import contextlib
import dataclasses
import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ipsrl import extras
from ipsrl.command import extensions
from ipsrl.figures import style
from ipsrl.records.run_folder import RunFolder, RunFolderError
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.records.warning_lines import WarningLines
from ipsrl.study import claims
from ipsrl.study.claims import Claims, Numbers
from ipsrl.study.curves import Curves, Output
from ipsrl.study.pages import published
from ipsrl.study.pages.claim_pages import Headline
from ipsrl.study.pages.tables import Table
from ipsrl.study.recording import record
from ipsrl.study.settings import Settings, identity
from ipsrl.training.settings import require_same_settings

SMOKE = "preset smoke: no claim is decided; it shows that everything runs"
HEADINGS = ("Claim", "Paper", "Arms", "Command", "Time", "Expected", "Doubt", "Smoke")
OPTIONAL_HEADINGS = ("Arms", "Doubt")


@dataclasses.dataclass(frozen=True)
class Variant:
    """One figure or table of a study, and preset -> the flags in addition to the preset, name -> text."""

    shows: str
    flags: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Study:
    """The contents of a study's module, described in the docstring of `ipsrl.study.study`."""

    name: str
    module: ModuleType
    presets: Mapping[str, Settings]
    curves: Callable[[Settings], Curves]
    variants: Mapping[str, Variant]
    claims: Claims = dataclasses.field(default_factory=dict)
    numbers: Numbers = dataclasses.field(default_factory=dict)
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)
    table: Callable[[Records, Settings], str] = dataclasses.field(default_factory=Table)
    figure: Callable[[Records, Settings], style.Drawing] | None = None
    documents: Callable[[Records, Settings, Path], Sequence[Path]] = lambda records, settings, png: ()
    vmapped: tuple[str, ...] = ()
    many_hosts: bool = False
    trackers: bool = False
    needs: Sequence[str] = ()
    headline: Headline | None = None

    @classmethod
    def of(cls, module: ModuleType, name: str = "") -> "Study":
        """Reads a module.

        Raises:
          ValueError: the module lacks PRESETS or curves, or has something else there, a label of PAPER is not in
            NUMBERS, or a sentence of HEADLINE is not in CLAIMS.
        """
        name = name or module.__name__.rpartition(".")[2]
        for needed in ("PRESETS", "curves"):
            if not hasattr(module, needed):
                raise ValueError(f"{name} is not a study: its module has no {needed}")
        if not (isinstance(module.PRESETS, Mapping) and module.PRESETS and callable(module.curves)):
            raise ValueError(f"{name} is not a study: PRESETS must be a dict of settings, and curves a function")
        if others := [preset for preset, settings in module.PRESETS.items() if not isinstance(settings, Settings)]:
            raise ValueError(f"{name} is not a study: its preset {others[0]!r} is no ipsrl.study.Settings")
        written = {
            field.name: field.name if field.name in ("curves", "documents") else field.name.upper()
            for field in dataclasses.fields(cls)
        }
        title = (inspect.getdoc(module) or "").partition("\n")[0]
        contents: dict[str, Any] = {"variants": {name: Variant(title)}}
        contents |= {field: getattr(module, word) for field, word in written.items() if hasattr(module, word)}
        contents |= {"name": name, "module": module}
        study = cls(**contents)
        if unknown := [label for label in study.paper if label not in study.numbers]:
            raise ValueError(
                f"{name} has a number of the paper for {unknown[0]!r}, but none of its own: add it to NUMBERS"
            )
        decided_by = study.headline.decided_by if study.headline else ()
        if unknown := [sentence for sentence in decided_by if sentence not in study.claims]:
            raise ValueError(f"{name}: the headline is decided by {unknown[0]!r}, which is none of its CLAIMS")
        return study

    @property
    def header(self) -> dict[str, str]:
        """Heading -> text, for each of `HEADINGS` in the module's docstring."""
        pattern = rf"^({'|'.join(HEADINGS)})\s+(.*(?:\n(?:[ ]{{8,}}\S.*))*)"
        text = inspect.getdoc(self.module) or ""
        return {heading: " ".join(body.split()) for heading, body in re.findall(pattern, text, re.MULTILINE)}

    def command(self, preset: str = "", flags: Mapping[str, str] | None = None) -> str:
        """The command that a user types, without --out."""
        written = [f"--preset={preset}"] if preset else []
        written += [f"--{name}={value}" for name, value in (flags or {}).items()]
        written += [f"--extensions={loaded}"] if (loaded := extensions.loaded()) else []
        return shlex.join(["python", "-m", self.module_name, *written])

    @property
    def module_name(self) -> str:
        """The name of the module for `python -m`."""
        specification = getattr(self.module, "__spec__", None)
        return specification.name if specification else self.module.__name__


def run(study: Study, settings: Settings, preset: str, output: Output) -> None:
    """Computes the missing curves, prints the table and the claims, and writes the figure and the summary.

    Raises:
      ValueError: a package is missing, or a curve cannot be computed; where possible, this is found before the folder
        is made.
    """
    for package in study.needs:
        extras.require(package)
    curves = list(study.curves(settings))
    with RunFolder.open(output.path, identity(settings), output.resume) as folder:
        with WarningLines(output.path) as warnings:
            records = record(curves, folder, dataclasses.replace(output, warnings=warnings))
        print(study.table(records, settings))
        for line in publish(study, settings, preset, records, folder):
            print(line)


def publish(
    study: Study, settings: Settings, preset: str, records: Records, folder: RunFolder, draw: bool = True
) -> list[str]:
    """Writes the summary and, if asked, the figure; returns a line for each claim, and one with the figure's path."""
    found = {sentence: claims.decision(claim, records) for sentence, claim in study.claims.items()}
    held = {sentence: each.verdict for sentence, each in found.items()}
    numbers, smoke = claims.measured(study.numbers, records), preset == "smoke"
    ours = claims.stored(numbers)
    beside = {label: {"ours": ours[label], "paper": value} for label, value in study.paper.items() if label in ours}
    lines = claims.lines(found)
    if smoke:
        # What cannot be decided at all is worth knowing; what holds is not.
        undecided = [line for line, holds in zip(lines, held.values(), strict=True) if holds is None]
        held, lines = dict.fromkeys(held), [SMOKE, *undecided]
    if draw and study.figure is not None:
        mark = SMOKE.partition(";")[0] if smoke else ""
        try:
            drawing = study.figure(records, settings)
            png = style.save(drawing.figure, folder.path / study.name, drawing.rows, drawing.caption, mark)
            for path in study.documents(records, settings, png):
                published.note(path, study.name, study, settings)
                lines.append(f"document: {path}")
            lines.append(f"figure: {png}")
        except NotRecorded as missing:
            lines.append(f"figure: none, {missing}")
    folder.write_summary(
        {
            "study": study.name,
            "preset": preset,
            "claims": held,
            "decisive": {} if smoke else claims.decisive(found),
            "headline": study.headline.verdict(study.claims, records) if study.headline and not smoke else "",
            "numbers": ours,
            "paper": beside,
            "verdict": "" if smoke else claims.verdict(held, numbers, study.paper),
            "final": final_rows(records),
        }
    )
    return lines


def final_rows(records: Records) -> list[dict[str, Any]]:
    """The labels and final values of each curve: means over seeds with intervals, numbers, or words."""
    rows = []
    for labels, of_curve in records.each():
        last = of_curve.at_end()
        values = {}
        for name in last.measured:
            found = last.having(name).column(name)
            is_number = np.issubdtype(found.dtype, np.number)
            values[name] = claims.stored({name: last.final(name)})[name] if is_number else found.tolist()
        rows.append(labels | values)
    return rows


def run_vmapped(
    study: Study, settings: Sequence[Settings], presets: Sequence[str], outputs: Sequence[Output]
) -> list[Exception | None]:
    """Like `run` for many settings that differ only in `study.vmapped`, as one program; prints and draws nothing.

    Returns for each of the settings the error that left it without results, or None if everything was written. A figure
    takes four seconds, as long as hundreds of runs: a run that is resumed alone draws its own.

    Raises:
      ValueError: the settings differ in other fields.
    """
    require_same_settings(settings, study.vmapped)
    failures: list[Exception | None] = [None] * len(settings)
    with contextlib.ExitStack() as stack:
        folders = {}
        for number, output in enumerate(outputs):
            try:
                folder = RunFolder.open(output.path, identity(settings[number]), output.resume)
                folders[number] = stack.enter_context(folder)
            except RunFolderError as error:
                failures[number] = error
        curves = study.module.vmapped([settings[run] for run in folders], [outputs[run] for run in folders])
        for (number, folder), of_run in zip(folders.items(), curves, strict=True):
            try:
                records = record(list(of_run), folder, outputs[number], report=lambda line: None)
                publish(study, settings[number], presets[number], records, folder, draw=False)
            except (ValueError, NonFiniteLossError) as error:
                failures[number] = error
    return failures
