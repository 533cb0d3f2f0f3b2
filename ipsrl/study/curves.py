"""The curves of a study: labels, and how to compute the points. Curves are computed lazily."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ipsrl.records.json_files import plain
from ipsrl.records.tidy import Record
from ipsrl.records.warning_lines import WarningLines
from ipsrl.study.settings import folder_name

Labels = Mapping[str, str | int | float]


@dataclasses.dataclass(frozen=True)
class Output:
    """The destination of results.

    Attributes:
      path: the folder of the whole study; each training run has a folder of its own in it.
      resume: continue the runs that the folder holds.
      trackers: where else the metrics of training runs go, see `ipsrl.records.trackers`.
      warnings: prints the warnings of monitors of all training runs.
    """

    path: Path
    resume: bool
    trackers: tuple[str, ...] = ()
    warnings: WarningLines | None = None


@dataclasses.dataclass(frozen=True)
class Points:
    """The measured points of one curve.

    Attributes:
      steps: `[U]`, number of updates at each point.
      values: name -> `[S, U]`, or broadcastable to it: numbers or words.
      seeds: S of them; None for a curve without randomness (S = 1).
      arrays: name -> array, only for figures; kept in the folder's `arrays/`, not among the records.
    """

    steps: Sequence[int] | np.ndarray
    values: Mapping[str, Any]
    seeds: Sequence[int] | None = None
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_runs(
        cls,
        steps: Sequence[int] | np.ndarray,
        runs: Iterable[Sequence[Mapping[str, Any]]],
        seeds: Sequence[int] | None = None,
    ) -> "Points":
        """Points from measurements run by run: for each seed, or the only run, a list with the values of each step."""
        runs = list(runs)
        return cls(
            steps, {name: np.array([[then[name] for then in run] for run in runs]) for name in runs[0][0]}, seeds
        )

    def records(self, labels: Labels) -> Iterator[Record]:
        """A dict for each seed and step, with JSON types."""
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
    """Base of both kinds of curves.

    Attributes:
      labels: identify the curve in the study: no curve has all labels of another.
    """

    labels: Labels

    @property
    def name(self) -> str:
        """The labels as one text, for messages."""
        texts = (value if isinstance(value, str) else f"{name} = {value:g}" for name, value in self.labels.items())
        return ", ".join(texts)


@dataclasses.dataclass(frozen=True)
class Curve(Labelled):
    """One curve, kept in the study's own folder as soon as it is computed.

    Attributes:
      compute: computes the points; not called if the folder has them.
      within: names of values that distinguish points of this curve; `Records` treats them as labels.
    """

    compute: Callable[[], Points]
    within: Sequence[str] = ()

    @classmethod
    def of_runs(
        cls,
        labels: Labels,
        steps: Sequence[int] | np.ndarray,
        run: Callable[[int], Sequence[Mapping[str, Any]]],
        seeds: Sequence[int],
        within: Sequence[str] = (),
    ) -> "Curve":
        """The curve of what `run(seed)` measured at each step."""
        return cls(labels, lambda: Points.of_runs(steps, map(run, seeds), seeds), within)

    def arrays_path(self, folder: Path) -> Path:
        """The path of the curve's arrays in the folder of a study."""
        return folder / "arrays" / f"{folder_name(json.dumps(plain(dict(self.labels))))}.npz"


@dataclasses.dataclass(frozen=True)
class TrainingRun(Labelled):
    """The curve of a training run, which has its own folder and log and can be resumed.

    Attributes:
      train: trains the run, resumes it, or reads it if it is finished, in a folder of the given `Output`.
    """

    train: Callable[[Output], Points]
    within: ClassVar[Sequence[str]] = ()


Curves = Iterable[Curve | TrainingRun]
"""The curves of a study, in the order in which its function `curves` yields them."""


def require_distinct(curves: Sequence[Curve | TrainingRun]) -> None:
    """Raises ValueError if there are no curves, or if one has all labels of another."""
    if not curves:
        raise ValueError("there is nothing to compute: give at least one objective")
    # Names of labels -> their values in the curves that have just these labels.
    seen: dict[tuple[str, ...], set[tuple]] = {}
    for curve in sorted(curves, key=lambda curve: len(curve.labels)):
        labels = plain(dict(curve.labels))
        for names, values in seen.items():
            if labels.keys() >= set(names) and tuple(labels[name] for name in names) in values:
                raise ValueError(f"{curve.name} is given twice: give it once")
        names = tuple(sorted(labels))
        seen.setdefault(names, set()).add(tuple(labels[name] for name in names))
