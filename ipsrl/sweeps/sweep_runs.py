"""The runs of a sweep: from the text of a grid or a Python file to runs with unique identities."""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ipsrl.checking.arguments import checked, shown
from ipsrl.checking.fields import Checked, Range, in_range
from ipsrl.checking.foreign_code import in_a_sentence
from ipsrl.checking.specifications import did_you_mean, shortened
from ipsrl.command import extensions
from ipsrl.records.progress_line import counted
from ipsrl.records.trackers import read_trackers
from ipsrl.study import catalog
from ipsrl.study.settings import OfStudy, Settings, as_text, folder_name, kinds_of, resolve
from ipsrl.study.study import Study

QUOTES = ('"', "'")
TYPOGRAPHIC = re.compile("[“”„‟‘’‚‛«»‹›「」『』＂＇]")
APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
CLOSING = {"(": ")", "[": "]", "{": "}"}
RANGE = re.compile(r"(\d+):(\d+)")
# File systems allow names of 255 bytes; suffixes such as ".json" are added.
LONGEST_DESCRIPTION = 150
# Each run is a folder, and is checked before the first one starts.
MOST_RUNS = 10_000


NAME_OF_FOLDER = Range("be the name of a folder, not a path", re.compile(r"[^./\0][^/\0]*").fullmatch)


@dataclasses.dataclass(frozen=True)
class SweepRun(Checked):
    """One run of an experiment, in a unique form: by the nearest preset.

    Attributes:
      experiment: name of the study.
      preset: the one with the fewest different flags.
      flags: these flags, name -> value as on a command line.
      identity: name of the run's folder; the experiment, the resolved settings that differ from the defaults of their
        class, and a hash of both. It does not depend on presets.
      tracker: further receivers of its metrics, as in the flag of this name; not part of its identity.
    """

    experiment: str
    preset: str
    flags: Mapping[str, str] = dataclasses.field(hash=False)
    identity: str = in_range(NAME_OF_FOLDER)
    tracker: str = ""

    @property
    def arguments(self) -> list[str]:
        """The run as arguments of `python -m`, without its folder."""
        written = [f"--{name}={value}" for name, value in self.flags.items()]
        written += [f"--tracker={self.tracker}"] if self.tracker else []
        written += [f"--extensions={extensions.loaded()}"] if extensions.loaded() else []
        return [catalog.module_name(self.experiment), f"--preset={self.preset}", *written]


@checked
def read_grid(text: str) -> list[dict[str, str]]:
    """The flags of each run of a grid such as `"objectives=grpo,ips_grpo(floor=0.2);seeds=0:5"`: all combinations.

    Flags are separated by semicolons, values by commas, outside brackets and quotes. `0:5` means 0, 1, 2, 3, 4. A value
    in square brackets or in quotes is kept as it is: `rewards=[2.0,1.0],[3.0,1.0]` has two values, `seeds=[0:5]` and
    `system_prompt="Be brief, please"` one. Quotes within a value keep nothing together, so `x=say "hi, there"` is
    refused, and `x=[say "hi, there"]` is one value. The last flag changes fastest.

    Raises:
      ValueError: the text is not a grid, or has more than 10,000 combinations.
    """
    values: dict[str, list[str]] = {}
    for part in _split(text, ";"):
        name, equals, listed = part.partition("=")
        name = name.strip()
        if not (equals and name.isidentifier()):
            written = shortened(part.strip())
            raise ValueError(f"cannot read {written} in the grid: write flag=value,value;flag=first:end")
        if name in values:
            raise ValueError(f"the grid names {shortened(name)} twice: write all its values between commas")
        values[name] = [value for item in _split(listed, ",") for value in _values(item.strip())]
    if (count := math.prod(map(len, values.values()))) > MOST_RUNS:
        raise ValueError(f"the grid has {count:,} runs, a sweep has at most {MOST_RUNS:,}: give it fewer values")
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


def read_file(path: Path) -> list[dict[str, Any]]:
    """The runs that a Python file lists as `RUNS`, or returns from `runs()`.

    Raises:
      ValueError: the file does not exist, lists no runs, or fails.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file: give a Python file that lists runs")
    try:
        names = runpy.run_path(str(path))
        listed = names["runs"]() if callable(names.get("runs")) else names.get("RUNS")
    except (Exception, SystemExit) as error:
        raise ValueError(in_a_sentence("<run_path>", error, called=f"{path} fails")) from error
    if not isinstance(listed, Sequence) or not all(isinstance(run, Mapping) for run in listed):
        raise ValueError(f"{path} lists no runs: it must set RUNS to a list of dicts, or define runs() returning one")
    return [dict(run) for run in listed]


@checked
def make_runs(requests: Sequence[Mapping[str, Any]]) -> list[SweepRun]:
    """The requested runs, each as `{"experiment": ..., "preset": ..., flag: value, ...}`.

    Raises:
      ValueError: there is none, or more than 10,000, one of them is invalid, or two are the same run.
    """
    if not requests:
        raise ValueError("the list of runs is empty: give at least one")
    if len(requests) > MOST_RUNS:
        raise ValueError(f"the list has {len(requests):,} runs, a sweep has at most {MOST_RUNS:,}: split it")
    runs: dict[str, SweepRun] = {}
    # The modules of studies are looked for on disk.
    find = functools.cache(catalog.find)
    for request in counted(requests, "runs checked"):
        if not all(isinstance(name, str) for name in request) or "experiment" not in request:
            raise ValueError(
                f"{dict(request)} is not a run: write flags by name, and the experiment here or as --experiment"
            )
        run = _make_run(find, **request)
        if run.identity in runs:
            raise ValueError(f"the run {run.identity} is given twice: give it once")
        runs[run.identity] = run
    return list(runs.values())


@checked
def make_run(experiment: str, preset: str = "demo", **given: Any) -> SweepRun:
    """One run of an experiment: a preset with some flags replaced, given as text or as the value of the text.

    Raises:
      ValueError: the experiment, the preset or a flag is unknown, a value has the wrong type, or the settings are
        invalid.
    """
    return _make_run(catalog.find, experiment, preset, **given)


@checked
def _make_run(find: Callable[[str], Study], /, experiment: str, preset: str = "demo", **given: Any) -> SweepRun:
    """`make_run`, with what finds a study by its name."""
    written = find(experiment).presets
    presets = {name: settings.resolved() for name, settings in written.items()}
    settings = read_settings(experiment, written, preset, given)
    kinds = kinds_of(type(settings))

    def differences(preset: str) -> list[str]:
        fields = [field.name for field in dataclasses.fields(settings)]
        return [name for name in fields if getattr(settings, name) != getattr(presets[preset], name)]

    # However a run is written, its form is unique: the preset from which it differs least, and those flags.
    reachable = [name for name in presets if set(differences(name)) <= kinds.keys()]
    nearest = min(reachable, key=lambda name: len(differences(name)))
    flags = {name: as_text(settings, name) for name in differences(nearest)}
    return SweepRun(experiment, nearest, flags, _identity(experiment, settings))


def require_unchanged(runs: Sequence[SweepRun]) -> None:
    """Raises ValueError if a recorded run has become another one, because its presets have changed."""
    find = functools.cache(catalog.find)
    for run in counted(runs, "runs checked"):
        if _make_run(find, run.experiment, run.preset, **run.flags).identity != run.identity:
            raise ValueError(
                f"{run.identity} is another run since its presets have changed: request it again by --grid"
            )


def tracked(runs: Sequence[SweepRun], tracker: str) -> list[SweepRun]:
    """The same runs with a tracker for their metrics.

    Raises:
      ValueError: there is no such tracker, or one of the experiments has no metrics to track.
    """
    read_trackers(tracker)
    for experiment in {run.experiment for run in runs}:
        if not catalog.find(experiment).trackers:
            raise ValueError(f"{experiment} has no flag --tracker: leave it out")
    return [dataclasses.replace(run, tracker=tracker) for run in runs]


def settings_of(run: SweepRun) -> Settings:
    """The resolved settings of a run."""
    return read_settings(run.experiment, catalog.find(run.experiment).presets, run.preset, run.flags)


def read_settings(experiment: str, presets: Mapping[str, OfStudy], preset: str, given: Mapping[str, Any]) -> OfStudy:
    """The resolved settings of a preset with some flags replaced; raises ValueError as `make_run` does."""
    kinds = kinds_of(type(next(iter(presets.values()))))
    for name in given:
        if name not in kinds:
            raise ValueError(f"{experiment} has no flag {shortened(name)}; {did_you_mean(name, kinds)}")
        if not isinstance(given[name], str | int | float):
            raise ValueError(f"--{name} is {shown(given[name])}, it must be {kinds[name].described}")
    try:
        return resolve(presets, preset, {name: str(value) for name, value in given.items()})
    except ValueError as error:
        written = " ".join([experiment, *(f"--{name}={value}" for name, value in given.items())])
        raise ValueError(f"{written}: {error}") from error


def _values(item: str) -> list[str]:
    """The values of one item of a grid."""
    if item[:1] in QUOTES:
        if item.count(item[0]) != 2 or item[-1] != item[0]:
            raise ValueError(f"cannot read {shortened(item)} in the grid: write a text in quotes alone, or in brackets")
        return [item[1:-1]]
    if item.startswith("[") and item.endswith("]"):
        _split(item[1:-1], ",", quotes=())
        return [item[1:-1]]
    without = APOSTROPHE.sub("", item)
    if any(without.count(quote) % 2 for quote in QUOTES) or TYPOGRAPHIC.search(without):
        raise ValueError(
            f"cannot read {shortened(item)} in the grid, for its quotes: write the whole value in square brackets"
        )
    numbers = RANGE.fullmatch(item)
    if numbers is None:
        return [item]
    first, end = map(int, numbers.groups())
    if first >= end:
        raise ValueError(
            f"the range {shortened(item)} in the grid is empty: write first:end with the end above the first"
        )
    if end - first > MOST_RUNS:
        raise ValueError(f"the range {shortened(item)} in the grid is too long: a sweep has at most {MOST_RUNS:,} runs")
    return [str(number) for number in range(first, end)]


def _split(text: str, separator: str, quotes: Sequence[str] = QUOTES) -> list[str]:
    """Splits a text outside brackets, and outside quotes around whole values."""
    parts, expected, quote = [""], [], ""
    for character in text:
        if quote or (character in quotes and not expected and parts[-1].rstrip()[-1:] in ("", "=", ",")):
            # An apostrophe within a value opens nothing.
            quote = "" if character == quote else quote or character
            parts[-1] += character
            continue
        if character in CLOSING:
            expected.append(CLOSING[character])
        elif character in CLOSING.values() and (not expected or expected.pop() != character):
            raise ValueError(f"cannot read {shortened(text)} in the grid: {character!r} closes no bracket")
        if character == separator and not expected:
            parts.append("")
        else:
            parts[-1] += character
    if quote or expected:
        raise ValueError(f"cannot read {shortened(text)} in the grid: {(quote or expected[-1])!r} is missing")
    return parts


def _identity(experiment: str, settings: Settings) -> str:
    """See `SweepRun`."""
    kinds, fields = kinds_of(type(settings)), dataclasses.fields(settings)
    values = {field.name: getattr(settings, field.name) for field in fields}
    values = {name: as_text(settings, name) if isinstance(value, tuple) else value for name, value in values.items()}
    resolved = json.dumps({"experiment": experiment, "settings": values}, sort_keys=True)
    changed = [f.name for f in fields if f.name in kinds and getattr(settings, f.name) != f.default]
    described = folder_name("-".join([experiment, *(f"{name}={values[name]}" for name in changed)]))
    beginning = described.encode()[:LONGEST_DESCRIPTION].decode(errors="ignore")
    return f"{beginning}-{hashlib.sha256(resolved.encode()).hexdigest()[:8]}"
