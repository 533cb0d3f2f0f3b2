"""The curves of a study: labels, and how the points are found. Nothing is computed before it is asked for."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ipsrl.records.json_files import plain
from ipsrl.records.tidy import Record
from ipsrl.study.settings import folder_name

Labels = Mapping[str, str | int | float]


@dataclasses.dataclass(frozen=True)
class Points:
    """What was measured on one curve.

    Attributes:
      steps: `[U]`, number of updates at each point.
      values: name -> `[S, U]`, or whatever broadcasts to it: numbers or words.
      seeds: S of them; None where no random number has any part in the curve, and S = 1.
      arrays: name -> array, for figures alone; kept in the folder's `arrays/`, not among the records.
    """

    steps: Sequence[int] | np.ndarray
    values: Mapping[str, Any]
    seeds: Sequence[int] | None = None
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def records(self, labels: Labels) -> Iterator[Record]:
        """A dict for each seed and step, in the terms of JSON."""
        seeds = [None] if self.seeds is None else self.seeds
        shape = (len(seeds), len(self.steps))
        columns = {name: np.broadcast_to(np.asarray(values), shape) for name, values in self.values.items()}
        for row, seed in enumerate(seeds):
            of_seed = {} if seed is None else {"seed": seed}
            for column, step in enumerate(self.steps):
                values = {name: plain(values[row, column]) for name, values in columns.items()}
                yield {"step": int(step)} | plain(dict(labels)) | of_seed | values


@dataclasses.dataclass(frozen=True)
class Labelled:
    """What all kinds of curves have.

    Attributes:
      labels: tell it from all other curves of the study: no curve has all labels of another.
    """

    labels: Labels

    @property
    def name(self) -> str:
        """For messages."""
        texts = (value if isinstance(value, str) else f"{name} = {value:g}" for name, value in self.labels.items())
        return ", ".join(texts)


@dataclasses.dataclass(frozen=True)
class Curve(Labelled):
    """One curve, which the study's own folder keeps as soon as it is computed.

    Attributes:
      compute: finds its points; not called where the folder has them.
      within: names of values that tell points of this curve apart, as labels do, and count as labels of `Records`.
    """

    compute: Callable[[], Points]
    within: Sequence[str] = ()

    def arrays_path(self, folder: Path) -> Path:
        """Where the folder of a study keeps its arrays."""
        return folder / "arrays" / f"{folder_name(json.dumps(plain(dict(self.labels))))}.npz"


@dataclasses.dataclass(frozen=True)
class TrainingRun(Labelled):
    """The curve of a training run that has a folder of its own, with its own log, and goes on where it was stopped.

    Attributes:
      train: trains, or continues, or reads what is finished, in a folder of the `Output` it is called with.
    """

    train: Callable[[Any], Points]
    within: ClassVar[Sequence[str]] = ()


def require_distinct(curves: Sequence[Curve | TrainingRun]) -> None:
    """Raises ValueError where there is no curve, or one has all labels of another."""
    if not curves:
        raise ValueError("there is nothing to compute: name one objective at least")
    # Names of labels -> their values in the curves that have just these labels.
    seen: dict[tuple[str, ...], set[tuple]] = {}
    for curve in sorted(curves, key=lambda curve: len(curve.labels)):
        labels = plain(dict(curve.labels))
        for names, values in seen.items():
            if labels.keys() >= set(names) and tuple(labels[name] for name in names) in values:
                raise ValueError(f"{curve.name} is asked for twice: name each once")
        names = tuple(sorted(labels))
        seen.setdefault(names, set()).add(tuple(labels[name] for name in names))
