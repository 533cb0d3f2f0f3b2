"""Which runs a sweep has: from the text of a grid or a Python file to runs that can be told apart."""

import dataclasses
import hashlib
import itertools
import json
import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ipsrl import extensions
from ipsrl.records.trackers import read_trackers
from ipsrl.specifications import did_you_mean
from ipsrl.study import catalog
from ipsrl.study.settings import as_text, folder_name, kinds_of, resolve

CLOSING = {"(": ")", "[": "]", "{": "}"}
RANGE = re.compile(r"(\d+):(\d+)")
# File systems allow 255 bytes for a name; ".json" and the like follow.
LONGEST_DESCRIPTION = 150


@dataclasses.dataclass(frozen=True)
class SweepRun:
    """One run of an experiment, written in one way only: by the preset that is nearest to it.

    Attributes:
      experiment: name of the study.
      preset: the one that differs from the run in the fewest flags.
      flags: these flags, name -> value as on a command line.
      identity: names the run's folder; the experiment, what its resolved settings have in place of the defaults of
        their class, and a hash of both. Presets may come and go.
      tracker: where else its metrics go, as the flag of this name says; no part of what it is.
    """

    experiment: str
    preset: str
    flags: Mapping[str, str]
    identity: str
    tracker: str = ""

    @property
    def arguments(self) -> list[str]:
        """The run as arguments of `python -m`, without its folder."""
        written = [f"--{name}={value}" for name, value in self.flags.items()]
        written += [f"--tracker={self.tracker}"] if self.tracker else []
        written += [f"--extensions={extensions.loaded()}"] if extensions.loaded() else []
        return [catalog.module_name(self.experiment), f"--preset={self.preset}", *written]


def read_grid(text: str) -> list[dict[str, str]]:
    """The flags of each run of a grid such as `"objectives=grpo,ips_grpo(floor=0.2);seeds=0:5"`.

    Flags stand between semicolons, values between commas, in so far as no bracket is open. `0:5` stands for 0, 1, 2, 3,
    4. A value in square brackets is taken as it is: `rewards=[2.0,1.0],[3.0,1.0]` has two values, `seeds=[0:5]` one.

    Returns:
      all combinations; the last flag changes fastest.

    Raises:
      ValueError: this is no grid.
    """
    values: dict[str, list[str]] = {}
    for part in _split(text, ";"):
        name, equals, listed = part.partition("=")
        name = name.strip()
        if not (equals and name.isidentifier()):
            raise ValueError(f"cannot read {part.strip()!r} in the grid: write flag=value,value;flag=first:end")
        if name in values:
            raise ValueError(f"the grid names {name} twice: write all its values between commas")
        values[name] = [value for item in _split(listed, ",") for value in _values(item.strip())]
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


def read_file(path: Path) -> list[dict[str, Any]]:
    """The runs that a Python file lists as `RUNS`, or returns from `runs()`.

    Raises:
      ValueError: there is no such file, it does neither, or it fails.
    """
    if not path.is_file():
        raise ValueError(f"{path} is no file: name a Python file that lists runs")
    try:
        names = runpy.run_path(str(path))
        listed = names["runs"]() if callable(names.get("runs")) else names.get("RUNS")
    except Exception as error:
        raise ValueError(f"{path} does not run to its end: {type(error).__name__}: {error}") from error
    if not isinstance(listed, Sequence) or not all(isinstance(run, Mapping) for run in listed):
        raise ValueError(f"{path} lists no runs: it must set RUNS to a list of dicts, or define runs() returning one")
    return [dict(run) for run in listed]


def make_runs(requests: Sequence[Mapping[str, Any]]) -> list[SweepRun]:
    """The runs that are asked for, each as `{"experiment": ..., "preset": ..., flag: value, ...}`.

    Raises:
      ValueError: there is none, one of them cannot be, or two are the same run.
    """
    if not requests:
        raise ValueError("the list of runs is empty: ask for one at least")
    runs: dict[str, SweepRun] = {}
    for request in requests:
        if not all(isinstance(name, str) for name in request) or "experiment" not in request:
            raise ValueError(
                f"{dict(request)} is no run: write flags by name, and the experiment here or as --experiment"
            )
        run = make_run(**request)
        if run.identity in runs:
            raise ValueError(f"the run {run.identity} is asked for twice: ask for it once")
        runs[run.identity] = run
    return list(runs.values())


def make_run(experiment: str, preset: str = "demo", **given: Any) -> SweepRun:
    """One run of an experiment: a preset with some flags in place of its own, as text or as what the text stands for.

    Raises:
      ValueError: the experiment, the preset or a flag is unknown, a value is of another type, or the settings cannot
        be.
    """
    presets = {name: settings.resolved() for name, settings in catalog.find(experiment).presets.items()}
    settings = _settings(experiment, preset, given)
    kinds = kinds_of(type(settings))

    def differences(preset: str) -> list[str]:
        fields = [field.name for field in dataclasses.fields(settings)]
        return [name for name in fields if getattr(settings, name) != getattr(presets[preset], name)]

    # However a run is written, it has one preset and one list of flags: those from which it differs least.
    reachable = [name for name in presets if set(differences(name)) <= kinds.keys()]
    nearest = min(reachable, key=lambda name: len(differences(name)))
    flags = {name: as_text(settings, name) for name in differences(nearest)}
    return SweepRun(experiment, nearest, flags, _identity(experiment, settings))


def require_unchanged(runs: Sequence[SweepRun]) -> None:
    """Raises ValueError where a run that was written down is another one by now, as its presets have changed."""
    for run in runs:
        if make_run(run.experiment, run.preset, **run.flags).identity != run.identity:
            raise ValueError(f"{run.identity} is another run since its presets have changed: ask for it anew by --grid")


def tracked(runs: Sequence[SweepRun], tracker: str) -> list[SweepRun]:
    """The same runs with their metrics tracked.

    Raises:
      ValueError: there is no such tracker, or one of the experiments has nothing to track.
    """
    read_trackers(tracker)
    for experiment in {run.experiment for run in runs}:
        if not catalog.find(experiment).trackers:
            raise ValueError(f"{experiment} has no flag --tracker: leave it out")
    return [dataclasses.replace(run, tracker=tracker) for run in runs]


def settings_of(run: SweepRun) -> Any:
    """The resolved settings of a run."""
    return _settings(run.experiment, run.preset, run.flags)


def _settings(experiment: str, preset: str, given: Mapping[str, Any]) -> Any:
    presets = catalog.find(experiment).presets
    kinds = kinds_of(type(next(iter(presets.values()))))
    for name in given:
        if name not in kinds:
            raise ValueError(f"{experiment} has no flag {name!r}; {did_you_mean(name, kinds)}")
        if not isinstance(given[name], str | int | float):
            raise ValueError(f"--{name} is {given[name]!r}, it must be {kinds[name].described}")
    try:
        return resolve(presets, preset, {name: str(value) for name, value in given.items()})
    except ValueError as error:
        written = " ".join([experiment, *(f"--{name}={value}" for name, value in given.items())])
        raise ValueError(f"{written}: {error}") from error


def _values(item: str) -> list[str]:
    """The values that one item of a grid stands for."""
    if item.startswith("[") and item.endswith("]"):
        _split(item[1:-1], ",")
        return [item[1:-1]]
    numbers = RANGE.fullmatch(item)
    if numbers is None:
        return [item]
    first, end = map(int, numbers.groups())
    if first >= end:
        raise ValueError(f"the range {item} in the grid is empty: write first:end with the end above the first")
    return [str(number) for number in range(first, end)]


def _split(text: str, separator: str) -> list[str]:
    """Splits a text where no bracket is open."""
    parts, expected = [""], []
    for character in text:
        if character in CLOSING:
            expected.append(CLOSING[character])
        elif character in CLOSING.values() and (not expected or expected.pop() != character):
            raise ValueError(f"cannot read {text!r} in the grid: {character!r} closes no bracket")
        if character == separator and not expected:
            parts.append("")
        else:
            parts[-1] += character
    if expected:
        raise ValueError(f"cannot read {text!r} in the grid: {expected[-1]!r} is missing")
    return parts


def _identity(experiment: str, settings: Any) -> str:
    """See `SweepRun`."""
    kinds = kinds_of(type(settings))
    values = {
        field.name: as_text(settings, field.name)
        if isinstance(value := getattr(settings, field.name), tuple)
        else value
        for field in dataclasses.fields(settings)
    }
    resolved = json.dumps({"experiment": experiment, "settings": values}, sort_keys=True)
    fields = dataclasses.fields(settings)
    changed = [f.name for f in fields if f.name in kinds and getattr(settings, f.name) != f.default]
    described = folder_name("-".join([experiment, *(f"{name}={values[name]}" for name in changed)]))
    shortened = described.encode()[:LONGEST_DESCRIPTION].decode(errors="ignore")
    return f"{shortened}-{hashlib.sha256(resolved.encode()).hexdigest()[:8]}"
