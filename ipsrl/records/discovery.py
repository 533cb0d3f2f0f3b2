"""Finds run folders in any state, and what all their readers agree on.

The content of a run folder is described in `ipsrl.records.run_folder`, which writes it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ipsrl.records.json_files import read_json

# Folders inside a run that hold no runs, but may hold thousands of files.
WITHOUT_RUNS = ("checkpoints", "tensorboard", "wandb")

LABELS = "labels.json"
"""In the folder of a study: names of the labels that distinguish its curves in metrics.jsonl, beside `seed`."""


def find(root: str | Path) -> list[Path]:
    """All run folders in `root`, itself included, in the order of their paths; links are not followed.

    A run has config.json, and one of the files that show that it has started.

    Raises:
      ValueError: there is no such folder, no run in it, or a config.json that is a folder.
      OSError: a folder in it cannot be read.
    """
    if not Path(root).is_dir():
        raise ValueError(f"there is no folder {root}: name one that holds runs")

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for folder, inside, files in os.walk(root, onerror=refuse):
        inside[:] = sorted(name for name in inside if name not in WITHOUT_RUNS and not name.startswith("."))
        if "config.json" in inside:
            raise ValueError(f"{folder}/config.json is a folder: the run there cannot be identified")
        # Exported models have a config.json as well.
        if "config.json" in files and {"environment.json", "metrics.jsonl", "summary.json"} & set(files):
            found.append(Path(folder))
    if not found:
        raise ValueError(
            f"{root} holds no run: no folder with config.json and environment.json, metrics.jsonl or summary.json"
        )
    return found


def labels_of(folder: Path) -> tuple[str, ...]:
    """The labels that distinguish runs with a shared file of records, if a record has them; `seed` is the last.

    Folders without labels.json, of earlier versions, name the objective or the number of outcomes.
    """
    try:
        labels = read_json(folder / LABELS)
    except (FileNotFoundError, ValueError):
        labels = ["objective", "num_outcomes"]
    return (*labels, "seed")


def seed_of(config: Mapping[str, Any]) -> int | None:
    """The seed in a config.json, also if `seeds` holds a single one, such as "3"; None if there is not exactly one."""
    seed, seeds = config.get("seed"), config.get("seeds")
    if seed is None and isinstance(seeds, str) and seeds.isdecimal():
        return int(seeds)
    return seed if isinstance(seed, int) else None


def leaves(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a config.json, each with its keys: `(("training", "steps"), 5)`."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*keys, key))
    elif keys:
        yield keys, value
