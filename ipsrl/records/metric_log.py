"""The numbers of a run, one JSON line for each record."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ipsrl.checking.arguments import checked
from ipsrl.checking.regular_files import open_regular, read_bytes
from ipsrl.distributed import hosts
from ipsrl.records.json_files import plain, replace_file

if TYPE_CHECKING:
    from ipsrl.records.trackers import Trackers

# Prefix of the metrics of an evaluation.
EVALUATION = "evaluation/"


class Extent(TypedDict):
    """The beginning of a file: the number of its first bytes, and their SHA-256."""

    bytes: int
    sha256: str


class MetricLog(AbstractContextManager["MetricLog"]):
    """Appends records to a file of JSON lines, such as `{"step": 7, "reward": 0.25}`.

    Every line is passed to the operating system as soon as it is written, so killing the process loses none. A
    non-finite number is written as null, which `read` returns as NaN. With many hosts, only the first writes. A tracker
    gets a copy of each record after the file.
    """

    def __init__(self, path: str | Path, tracker: "Trackers | None" = None):
        self._path = Path(path)
        self._tracker = tracker
        self._file = None
        if hosts.is_first():
            self._open()

    def write(self, step: int, metrics: dict[str, Any]) -> None:
        """Appends the metrics of a training step: name -> number (Python, NumPy or JAX), string or boolean.

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
        self.extend([record])
        if self._file is not None and self._tracker is not None:
            self._tracker.write(record)

    def extend(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Appends several records in one write."""
        if self._file is not None:
            lines = _lines(records)
            self._file.write(lines)
            self._file.flush()
            self._checksum.update(lines)

    def flush(self) -> None:
        """Flushes to storage, so that a crash of the machine loses nothing."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            # Mounted buckets store a file only when it is closed.
            self._file.close()
            self._file = open_regular(self._path, "ab")
            if self._tracker is not None:
                self._tracker.flush()

    @property
    def extent(self) -> Extent:
        """The extent of what has been written, see `extent_of`; on other hosts than the first that of nothing."""
        if self._file is None:
            return extent_of(b"")
        return {"bytes": self._file.tell(), "sha256": self._checksum.hexdigest()}

    def rewrite(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Replaces all records by these, atomically."""
        if self._file is None:
            return
        self._file.close()
        replace_file(self._path, _lines(records))
        self._open()

    def _open(self) -> None:
        self._file = open_regular(self._path, "ab")
        with open_regular(self._path, "rb") as file:
            # Carried on from record to record: the file of a long run takes long to read.
            self._checksum = hashlib.file_digest(file, "sha256")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __exit__(self, *exception: object) -> None:
        self.close()


def extent_of(content: bytes) -> Extent:
    """The extent of the first bytes of a file."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(plain(record)) + "\n" for record in records).encode()


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
    with open_regular(path, "rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def read_undamaged(path: str | Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The readable records of a metric log, and a sentence on each damaged line.

    A truncated last line is in neither.
    """
    # A record is one write, so only the last line can be truncated.
    lines = read_bytes(path).decode(errors="replace").split("\n")[:-1]
    records, damage = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line, parse_int=_integer)
        except (ValueError, RecursionError) as error:
            damage.append(f"line {number} of {path} is not valid JSON ({error})")
            continue
        if isinstance(record, dict) and type(record.get("step")) is int:
            records.append(record)
        else:
            damage.append(f"line {number} of {path} is not a record: it should be an object with a whole number 'step'")
    return records, damage


def _integer(text: str) -> int:
    """An integer of JSON, which a float can hold, as every reader of records expects."""
    if len(text) > 300:
        raise ValueError(f"an integer has {len(text)} digits")
    return int(text)
