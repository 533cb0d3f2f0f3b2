"""Run folders as they are found: finished or not, damaged in places, or of an older version."""

import dataclasses
import functools
import itertools
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ipsrl.training.evaluation import COMPLETIONS, OUTCOMES
from ipsrl.training.json_files import read_json

Record = dict[str, Any]

# Large folders of other things, in which no runs lie.
_NO_RUNS = ("checkpoints", "tensorboard", "wandb")
# What tells the runs apart that share one file of records.
_RUN_OF = ("objective", "num_outcomes", "seed")


@dataclasses.dataclass(frozen=True)
class Folder:
    """What a run folder holds, as far as it can be read.

    Attributes:
      path: relative to where the search began.
      config: of config.json.
      starts: of environment.json, one entry for each start.
      summary: of summary.json; None before the end.
      metrics, outcomes, completions, warnings: the records of these files; each has a whole number `step`.
      notes: a sentence on each thing that could not be read.
    """

    path: str
    config: Record
    starts: Sequence[Record]
    summary: Record | None
    metrics: Sequence[Record]
    outcomes: Sequence[Record]
    completions: Sequence[Record]
    warnings: Sequence[Record]
    notes: Sequence[str]

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.summary is not None and self.summary.get("complete") is True


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One policy in training: all records of a folder, or those of them that belong together.

    Attributes:
      objective: its specification.
      seed: its seed; None where it has none.
      settings: all else that was asked for, as in config.json.
      folder: where it lies.
      metrics: its records, step by step.
    """

    objective: str
    seed: int | None
    settings: Record
    folder: Folder
    metrics: Sequence[Record]

    @functools.cached_property
    def points(self) -> dict[str, tuple[list[int], list[float | None]]]:
        """Metric -> steps at which it was recorded, and its values, None for those not finite; of numbers alone."""
        points = {}
        for record in self.metrics:
            for name, value in record.items():
                if name not in ("step", *_RUN_OF) and (value is None or is_number(value)):
                    steps, values = points.setdefault(name, ([], []))
                    steps.append(record["step"])
                    values.append(value if value is not None and math.isfinite(value) else None)
        return points


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_folders(root: str | Path) -> list[Folder]:
    """All run folders in `root`, itself included, in the order of their paths.

    Raises:
      ValueError: there is no such folder, or no run in it.
    """
    root = Path(root)
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}: name one that holds runs")
    folders = [read_folder(path, root) for path in _run_folders(root)]
    if not folders:
        raise ValueError(f"no run lies in {root}: a run is a folder with config.json and environment.json")
    return folders


def _run_folders(root: Path) -> Iterator[Path]:
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if name not in _NO_RUNS and not name.startswith("."))
        # Exported models have a config.json as well.
        if "config.json" in files and {"environment.json", "metrics.jsonl", "summary.json"} & set(files):
            yield Path(folder)


def read_folder(path: Path, root: Path) -> Folder:
    """What the run folder `path` holds; what is damaged is left out, with a note."""
    notes = []

    def value(name: str, kind: type, default: Any) -> Any:
        if not (path / name).exists():
            return default
        try:
            found = read_json(path / name)
        except (ValueError, OSError) as error:
            notes.append(f"{error}; it is left out.")
            return default
        return found if isinstance(found, kind) else default

    return Folder(
        path=path.relative_to(root).as_posix(),
        config=value("config.json", dict, {}),
        starts=[start for start in value("environment.json", list, []) if isinstance(start, dict)],
        summary=value("summary.json", dict, None),
        metrics=_records(path / "metrics.jsonl", notes),
        outcomes=_records(path / OUTCOMES, notes),
        completions=_records(path / COMPLETIONS, notes),
        warnings=_records(path / "warnings.jsonl", notes),
        notes=notes,
    )


def _records(path: Path, notes: list[str]) -> list[Record]:
    """The records of a file of JSON lines; none where there is no such file."""
    if not path.exists():
        return []
    # The last line lacks its end where the process was killed, or is writing it just now.
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    records, damaged = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
        else:
            damaged.append(number)
    if damaged:
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        notes.append(f"line {damaged[0]}{more} of {path} cannot be read; what else it holds is shown.")
    return records


def runs_of(folder: Folder) -> list[Run]:
    """The runs whose records a folder holds; none where it holds those of no training.

    Most folders are one run. Where many policies are trained in one program, each record says whose it is.
    """

    def owner(record: Record) -> tuple:
        return tuple(str(record.get(name, folder.config.get(name))) for name in _RUN_OF)

    grouped, runs = {}, []
    for record in folder.metrics:
        grouped.setdefault(owner(record), []).append(record)
    for records in grouped.values():
        settings = folder.config | {name: records[0][name] for name in _RUN_OF if name in records[0]}
        objective, seed = settings.pop("objective", None), settings.pop("seed", None)
        climbs = all(early["step"] < late["step"] for early, late in itertools.pairwise(records))
        if isinstance(objective, str) and climbs:
            runs.append(Run(objective, seed if isinstance(seed, int) else None, settings, folder, records))
    return runs
