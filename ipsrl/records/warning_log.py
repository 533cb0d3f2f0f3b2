"""Monitors at work: their metrics go into the records of a run, their warnings to a file and to the terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from ipsrl.distributed import hosts
from ipsrl.records import metric_log
from ipsrl.records.metric_log import MetricLog
from ipsrl.records.monitors import PREFIX, Finding, Monitor, Record
from ipsrl.records.warning_lines import WarningLines


class Seen(NamedTuple):
    """State of one monitor.

    Attributes:
      known: its memory.
      holds: whether it is firing.
      against: for how many steps in a row the evidence has pointed the other way.
    """

    known: Any
    holds: bool = False
    against: int = 0


def begin(monitors: Mapping[str, Monitor]) -> dict[str, Seen]:
    """What monitors have come to before the first record."""
    return {name: Seen(monitor.start) for name, monitor in monitors.items()}


def look(
    monitors: Mapping[str, Monitor], seen: Mapping[str, Seen], record: Record
) -> tuple[dict[str, Seen], dict[str, float], dict[str, Finding]]:
    """One record under the eyes of all monitors.

    A monitor holds from the last of `steps` bad steps in a row to the last of as many good ones.

    Returns:
      what they have come to; metrics for the record, `monitor/NAME` being 1 where the monitor NAME holds and 0 where it
      does not; and the findings of those that begin to hold with this record.
    """
    after, metrics, begun = {}, {}, {}
    for name, monitor in monitors.items():
        known, finding = monitor.look(seen[name].known, record)
        after[name] = seen[name]._replace(known=known)
        if finding is None:
            continue
        holds, against = seen[name].holds, seen[name].against + 1
        if finding.bad in (holds, None):
            against = 0
        elif against == monitor.steps:
            holds, against = not holds, 0
            if holds:
                begun[name] = finding
        after[name] = Seen(known, holds, against)
        metrics |= {PREFIX + metric: value for metric, value in finding.metrics.items()}
        metrics[PREFIX + name] = float(holds)
    return after, metrics, begun


class Watch:
    """Has the monitors of a run look at each of its records.

    A warning is one line `{"step", "monitor", "message"}` in a file, which storage keeps at once, and a short one on
    the terminal. Of many hosts only the first watches.

    Args:
      monitors: by name.
      path: the file, in the folder of the run.
      lines: what prints the warnings of this run and of those beside it.
    """

    def __init__(self, monitors: Mapping[str, Monitor], path: str | Path, lines: WarningLines):
        self._monitors = monitors if hosts.is_first() else {}
        self._seen = begin(self._monitors)
        self._path = Path(path)
        self._log = MetricLog(path)
        self._lines = lines

    def recall(self, records: str | Path, step: int) -> None:
        """Takes up where the records of a log end, the last of which is that of `step`; later warnings are dropped."""
        self._log.truncate_after(step)
        if self._monitors:
            for record in metric_log.read(records):
                self._seen, _, _ = look(self._monitors, self._seen, record)

    def observe(self, step: int, record: Record) -> dict[str, float]:
        """Looks at the record of a step, and warns; returns the monitors' metrics."""
        self._seen, metrics, begun = look(self._monitors, self._seen, record)
        for name, finding in begun.items():
            monitor = self._monitors[name]
            self._log.write(step, {"monitor": name, "message": f"{finding.message}: {monitor.advice}"})
            self._log.keep()
            self._lines.warn(self._path.parent, step, name, monitor, finding)
        return metrics

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
