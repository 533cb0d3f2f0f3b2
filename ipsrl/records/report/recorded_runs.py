"""Reads run folders in any state: finished or not, damaged in places, or of an older version."""

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipsrl.checking.regular_files import kind_of, read_bytes
from ipsrl.records import metric_log
from ipsrl.records.discovery import find, labels_of, link_out_of, seed_of
from ipsrl.records.evaluation import COMPLETIONS, OUTCOMES
from ipsrl.records.json_files import read_json
from ipsrl.records.run_folder import UNCOMMITTED, says_complete

Record = dict[str, Any]
WORDS: dict[type, str] = {dict: "JSON object", list: "JSON list"}


@dataclasses.dataclass(frozen=True)
class Folder:
    """The readable content of a run folder.

    Attributes:
      path: relative to the search root.
      labels: names of the labels that distinguish the runs with shared records.
      config: of config.json.
      starts: of environment.json, one entry for each start.
      summary: of summary.json; None before the end.
      metrics, outcomes, completions, warnings: the records of these files; each has a whole number `step`.
      notes: a sentence on each part that could not be read.
      figures: the PNG files of the folder itself, by name, each with the text of its caption.
      changes: content of uncommitted.diff; empty if there is none.
    """

    path: str
    labels: tuple[str, ...]
    config: Record
    starts: Sequence[Record]
    summary: Record | None
    metrics: Sequence[Record]
    outcomes: Sequence[Record]
    completions: Sequence[Record]
    warnings: Sequence[Record]
    notes: Sequence[str]
    figures: Sequence[tuple[Path, str]]
    changes: str

    @property
    def complete(self) -> bool:
        """Whether the run has ended."""
        return says_complete(self.summary)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One policy in training: all records of a folder, or those that belong together, step by step.

    `settings` are all in config.json but the objective, and the seed, if there is one.
    """

    objective: str
    seed: int | None
    settings: Record
    folder: Folder
    metrics: Sequence[Record]

    @functools.cached_property
    def points(self) -> dict[str, tuple[list[int], list[float | None]]]:
        """Metric -> steps at which it was recorded, and its values, None if not finite; numbers only."""
        points = {}
        for record in self.metrics:
            for name, value in record.items():
                if name not in ("step", *self.folder.labels) and (value is None or is_number(value)):
                    steps, values = points.setdefault(name, ([], []))
                    steps.append(record["step"])
                    values.append(float(value) if value is not None and math.isfinite(value) else None)
        return points


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number, not too large for a float."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max)


def read_folders(root: str | Path) -> list[Folder]:
    """The content of all run folders in `root`, in the order of their paths; errors as in `find`."""
    return [read_folder(path, Path(root)) for path in find(root)]


def read_folder(path: Path, root: Path) -> Folder:
    """The content of the run folder `path`.

    Damaged parts are left out, with a note, and so are links out of `root`: a page may be passed on to people who must
    not read other files of this machine.
    """
    links = {file.name: link for file in sorted(path.iterdir()) if (link := link_out_of(file, root))}
    notes = [f"{link}; it is left out." for link in links.values()]

    def exists(name: str) -> bool:
        return name not in links and (path / name).exists()

    def text(name: str) -> str:
        """The content of a text file; empty if there is none."""
        if not exists(name) or kind_of(path / name, follow=True) != "a file":
            return ""
        return read_bytes(path / name).decode(errors="replace")

    def records(name: str) -> list[Record]:
        return _records(path / name, notes) if exists(name) else []

    def value(name: str, kind: type, default: Any) -> Any:
        if not exists(name):
            return default
        try:
            found = read_json(path / name)
        except (ValueError, OSError) as error:
            notes.append(f"{error}; it is left out.")
            return default
        if not isinstance(found, kind):
            notes.append(f"{path / name} holds no {WORDS[kind]}; it is left out.")
            return default
        return found

    return Folder(
        path=path.relative_to(root).as_posix(),
        labels=labels_of(path),
        config=value("config.json", dict, {}),
        starts=[start for start in value("environment.json", list, []) if isinstance(start, dict)],
        summary=value("summary.json", dict, None),
        metrics=records("metrics.jsonl"),
        outcomes=records(OUTCOMES),
        completions=records(COMPLETIONS),
        warnings=records("warnings.jsonl"),
        notes=notes,
        figures=[
            (picture, text(picture.with_suffix(".txt").name))
            for picture in sorted(path.glob("*.png"))
            if picture.name not in links and picture.is_file()
        ],
        changes=text(UNCOMMITTED),
    )


def _records(path: Path, notes: list[str]) -> list[Record]:
    """The records of a file of JSON lines."""
    try:
        records, damage = metric_log.read_undamaged(path)
    except OSError as error:
        notes.append(f"{path} cannot be read ({error.strerror}); it is left out.")
        return []
    except ValueError as error:
        notes.append(f"{error}; it is left out.")
        return []
    if damage:
        more = f", and {len(damage) - 1} more lines are damaged" if len(damage) > 1 else ""
        notes.append(f"{damage[0]}{more}; its other records are shown.")
    if metric_log.is_cut(path):
        notes.append(f"the last line of {path} is cut; its other records are shown.")
    return records


def runs_of(folder: Folder) -> list[Run]:
    """The runs whose records a folder holds; empty if they are not from training.

    Most folders are one run. If many policies are trained in one program, each record names its run.
    """

    def owner(record: Record) -> tuple:
        return tuple(str(record.get(name, folder.config.get(name))) for name in folder.labels)

    grouped, runs = {}, []
    for record in folder.metrics:
        grouped.setdefault(owner(record), []).append(record)
    for records in grouped.values():
        settings = folder.config | {name: records[0][name] for name in folder.labels if name in records[0]}
        objective, seed = settings.pop("objective", None), seed_of(settings)
        settings.pop("seed", None)
        if seed is not None:
            # The other objectives of the same command do not distinguish this run.
            settings.pop("seeds", None)
        climbs = all(early["step"] < late["step"] for early, late in itertools.pairwise(records))
        if isinstance(objective, str) and climbs:
            runs.append(Run(objective, seed, settings, folder, records))
    return runs
