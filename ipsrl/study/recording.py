"""Records of curves: those in the folder are read, missing ones are computed and written one by one."""

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl.checking.regular_files import read_bytes
from ipsrl.records import metric_log
from ipsrl.records.discovery import LABELS
from ipsrl.records.json_files import plain, replace_file, write_json
from ipsrl.records.metric_log import MetricLog
from ipsrl.records.progress_line import report_line, working
from ipsrl.records.run_folder import RunFolder, is_complete
from ipsrl.records.tidy import Record, Records
from ipsrl.study.curves import Curve, Output, Points, TrainingRun, require_distinct


def record(
    curves: Sequence[Curve | TrainingRun],
    folder: RunFolder,
    output: Output,
    report: Callable[[str], None] = report_line,
) -> Records:
    """All records of some curves, in their order.

    A curve is written when all of it is computed. If the process was killed, the last curve in the file may be
    incomplete: unless the folder's summary says that the study is complete, the last curve is computed again.

    The folder keeps the computed curves; training runs have their own in the output. `report` is called with a line for
    each trained curve.

    Raises:
      ValueError: two curves have the same labels, or a curve cannot be computed.
    """
    require_distinct(curves)
    names = (name for curve in curves for name in (*curve.labels, *curve.within))
    labels = tuple(name for name in dict.fromkeys(names) if name != "seed")
    if any(isinstance(curve, Curve) for curve in curves):
        write_json(folder.path / LABELS, labels)
    log = _CurveLog(folder)
    rows, arrays = [], []
    for number, curve in enumerate(curves, start=1):
        if isinstance(curve, TrainingRun):
            points = curve.train(output)
            rows += map(_as_read, points.records(curve.labels))
            arrays.append((curve.labels, points.arrays))
            continue
        if (kept := log.find(curve)) is None:
            with working(f"{curve.name}, {number} of {len(curves)}"):
                points = curve.compute()
            kept = log.add(curve, points)
            if points.seeds is not None:
                report(f"finished {curve.name}")
        rows += kept
        arrays.append((curve.labels, _read_arrays(curve.arrays_path(folder.path))))
    log.close()
    return Records(rows, labels, arrays)


class _CurveLog:
    """The metric log of a study, by curve."""

    def __init__(self, folder: RunFolder):
        self._folder = folder
        self._log: MetricLog | None = None
        self._rows: Sequence[Record] = []
        if folder.metrics_path.exists():
            self._rows = metric_log.read(folder.metrics_path)
        # The last curve of an unfinished study may be incomplete; `find` recognises it by the last record.
        self._last = self._rows[-1] if self._rows and not is_complete(folder.path) else None

    def find(self, curve: Curve) -> list[Record] | None:
        """The records of a curve; None if some may be missing."""
        labels = plain(dict(curve.labels)).items()
        rows = [row for row in self._rows if labels <= row.items()]
        return rows if rows and rows[-1] is not self._last else None

    def add(self, curve: Curve, points: Points) -> list[Record]:
        """Appends a curve: arrays first, so that a curve with records is complete."""
        self._folder.withdraw_summary()
        if points.arrays:
            _write_arrays(curve.arrays_path(self._folder.path), points.arrays)
        if self._log is None:
            self._log = MetricLog(self._folder.metrics_path)
            if self._last is not None:
                labels = plain(dict(curve.labels)).items()
                self._log.rewrite([row for row in self._rows if not labels <= row.items()])
        rows = list(points.records(curve.labels))
        self._log.extend(rows)
        return list(map(_as_read, rows))

    def close(self) -> None:
        if self._log is not None:
            self._log.flush()
            self._log.close()


def _as_read(row: Record) -> Record:
    """Non-finite numbers are written as null and read as NaN."""
    return {name: float("nan") if value is None else value for name, value in row.items()}


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    path.parent.mkdir(exist_ok=True)
    stream = io.BytesIO()
    # Any names: NumPy's own arguments are none that a study gives to an array.
    named: dict[str, Any] = dict(arrays)
    np.savez(stream, **named)
    replace_file(path, stream.getvalue())


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    try:
        with np.load(io.BytesIO(read_bytes(path))) as stored:
            return dict(stored)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged ({error}): choose another --out") from error
