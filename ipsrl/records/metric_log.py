"""The numbers of a run, one JSON line for each record."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from ipsrl.arguments import checked
from ipsrl.distributed import hosts
from ipsrl.records.json_files import plain, replace_file

# Prefix of the metrics of an evaluation.
EVALUATION = "evaluation/"


class Tracker(Protocol):
    """Receives a copy of each record, see `ipsrl.records.trackers`."""

    def write(self, record: dict[str, Any]) -> None: ...

    def keep(self) -> None: ...


class MetricLog:
    """Appends records to a file of JSON lines, such as `{"step": 7, "reward": 0.25}`.

    Every line is passed to the operating system as soon as it is written, so killing the process loses none. A
    non-finite number is written as null, which `read` returns as NaN. With many hosts, only the first writes.

    Call `truncate_after` before the first `write` of a resumed run.

    Args:
      path: the file.
      tracker: receives each record after the file.
    """

    def __init__(self, path: str | Path, tracker: Tracker | None = None):
        self._path = Path(path)
        self._tracker = tracker
        self._file = self._path.open("a", encoding="utf-8") if hosts.is_first() else None

    def write(self, step: int, metrics: dict[str, Any]) -> None:
        """Appends one record.

        Args:
          step: training step of the metrics.
          metrics: name -> number (Python, NumPy or JAX), string or boolean.

        Raises:
          ValueError: a metric is not a single value.
        """
        record = {"step": int(step)}
        for name, value in metrics.items():
            if name == "step":
                raise ValueError("a metric may not be called 'step', the name of the record's own number")
            record[name] = plain(value)
            if isinstance(record[name], list | dict):
                raise ValueError(f"metric {name!r} must be a single value, not {value!r}")
        self.append(record)

    def append(self, record: dict[str, Any]) -> None:
        """Appends a record unchanged: any JSON object with the number `step` in it."""
        if self._file is not None:
            self._file.write(json.dumps(plain(record)) + "\n")
            self._file.flush()
            if self._tracker is not None:
                self._tracker.write(record)

    def extend(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Appends several records in one write."""
        if self._file is not None:
            self._file.write("".join(json.dumps(plain(record)) + "\n" for record in records))
            self._file.flush()

    def keep(self) -> None:
        """Flushes to storage, so that a crash of the machine loses nothing."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            # Mounted buckets store a file only when it is closed.
            self._file.close()
            self._file = self._path.open("a", encoding="utf-8")
            if self._tracker is not None:
                self._tracker.keep()

    def truncate_after(self, step: int) -> None:
        """Drops the records of steps after `step`, and a truncated last line, atomically.

        A resumed run writes those records again.

        Raises:
          ValueError: any other line is not a record.
        """
        if self._file is not None:
            self.rewrite([record for record in read(self._path) if record["step"] <= step])

    def rewrite(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Replaces all records by these, atomically."""
        if self._file is None:
            return
        self._file.close()
        replace_file(self._path, "".join(json.dumps(plain(record)) + "\n" for record in records))
        self._file = self._path.open("a", encoding="utf-8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@checked
def read(path: str | Path) -> list[dict[str, Any]]:
    """The records of a metric log, in the order they were written, null as NaN.

    A truncated last line (the process was killed while writing) is dropped.

    Raises:
      ValueError: any other line is not a record.
    """
    records, damage = read_undamaged(path)
    if damage:
        raise ValueError(damage[0])
    return [{name: math.nan if value is None else value for name, value in record.items()} for record in records]


def is_cut(path: str | Path) -> bool:
    """Whether the last line of a metric log is truncated: the process was killed while writing."""
    with Path(path).open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def unbroken(records: Sequence[Mapping[str, Any]], first: int) -> int:
    """The last step of a training run up to which no record from `first` on is missing; `first` - 1 if that one is."""
    last = first - 1
    for record in records:
        if record["step"] > last + 1:
            break
        last = max(last, record["step"])
    return last


def read_undamaged(path: str | Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The readable records of a metric log, and a sentence on each damaged line.

    A truncated last line is in neither.
    """
    # A record is one write, so only the last line can be truncated.
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    records, damage = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            damage.append(f"line {number} of {path} is not valid JSON ({error})")
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
        else:
            damage.append(f"line {number} of {path} is not a record: it should be an object with a whole number 'step'")
    return records, damage
