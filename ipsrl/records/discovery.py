"""Finds run folders in any state, and what all their readers agree on.

The content of a run folder is described in `ipsrl.records.run_folder`, which writes it.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ipsrl.checking.arguments import checked
from ipsrl.printable import printable
from ipsrl.records.json_files import read_json

# Folders inside a run that hold no runs, but may hold thousands of files.
WITHOUT_RUNS = ("checkpoints", "tensorboard", "wandb")

# A run has config.json and one of these, which show that it has started; exported models have a config.json as well.
STARTED = ("environment.json", "metrics.jsonl", "summary.json")

LABELS = "labels.json"
"""File in a study's folder: names of the labels that distinguish its curves in metrics.jsonl, beside `seed`."""


def require_folder(root: str | Path) -> None:
    """Raises ValueError if there is no such folder."""
    if not Path(root).is_dir():
        raise ValueError(f"there is no folder {root}: name one that holds runs")


def require_outside_runs(path: str | Path, called: str) -> None:
    """Raises ValueError if `path` is the folder of a run, or lies in one at any depth."""
    real = os.path.realpath(path)
    for folder in (real, *map(str, Path(real).parents)):
        if os.path.isfile(f"{folder}/config.json") and any(os.path.exists(f"{folder}/{name}") for name in STARTED):
            raise ValueError(f"{called}={path} lies in the folder of a run, in which nothing is changed")


@checked
def find(root: str | Path) -> list[Path]:
    """All run folders in `root`, itself included, in the order of their paths; links are not followed.

    A run has config.json, and one of the files that show that it has started. Of a folder with metrics that has no such
    file, a line on stderr says that it is left out.

    Raises:
      ValueError: there is no such folder, or no run in it.
      OSError: a folder in it cannot be read.
    """
    require_folder(root)

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for folder, inside, files in os.walk(root, onerror=refuse):
        inside[:] = sorted(name for name in inside if name not in WITHOUT_RUNS and not name.startswith("."))
        if "config.json" in files and not {*files, *inside}.isdisjoint(STARTED):
            found.append(Path(folder))
        elif "metrics.jsonl" in files:
            say_left_out(f"{folder} has no file config.json, so the run there cannot be identified")
    if not found:
        raise ValueError(
            f"{root} holds no run: no folder with config.json and environment.json, metrics.jsonl or summary.json"
        )
    return found


def link_out_of(path: str | Path, root: str | Path) -> str | None:
    """A sentence on a link that leads out of the folder `root`, whose content is not shown to others; else None."""
    if os.path.islink(path) and not Path(path).resolve().is_relative_to(Path(root).resolve()):
        return f"{path} is a link out of {root}"
    return None


def say_left_out(what: str) -> None:
    """Says on stderr, in one line, what a reader of runs leaves out."""
    print(printable(f"left out: {what}"), file=sys.stderr)


def labels_of(folder: Path) -> tuple[str, ...]:
    """The labels that distinguish runs with a shared file of records, if a record has them; `seed` is the last.

    Folders without labels.json, of earlier versions, name the objective or the number of outcomes.
    """
    try:
        labels = None if link_out_of(folder / LABELS, folder) else read_json(folder / LABELS)
    except (FileNotFoundError, ValueError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        labels = ["objective", "num_outcomes"]
    return (*labels, "seed")


def seed_of(config: Mapping[str, Any]) -> int | None:
    """The seed in a config.json, also if `seeds` holds a single one, such as "3"; None if there is not exactly one."""
    seed, seeds = config.get("seed"), config.get("seeds")
    if seed is None and isinstance(seeds, str) and seeds.isdecimal() and len(seeds) < 19:
        return int(seeds)
    return seed if isinstance(seed, int) else None


def leaves(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a config.json, each with its keys: `(("training", "steps"), 5)`."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*keys, key))
    elif keys:
        yield keys, value
