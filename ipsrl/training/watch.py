"""Monitors at work: their metrics go into the records of a run, their warnings to stderr and to a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from ipsrl.distributed import hosts
from ipsrl.training import metric_log
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.monitors import PREFIX, Monitor, Record
from ipsrl.training.progress_line import say


class Seen(NamedTuple):
    """What one monitor has come to.

    Attributes:
      known: what it knows itself.
      holds: whether what it warns of is so.
      against: for how many steps in a row it has looked otherwise.
    """

    known: Any
    holds: bool = False
    against: int = 0


def begin(monitors: Mapping[str, Monitor]) -> dict[str, Seen]:
    """What monitors have come to before the first record."""
    return {name: Seen(monitor.start) for name, monitor in monitors.items()}


def look(
    monitors: Mapping[str, Monitor], seen: Mapping[str, Seen], record: Record
) -> tuple[dict[str, Seen], dict[str, float], dict[str, str]]:
    """One record under the eyes of all monitors.

    A monitor holds from the last of `steps` bad steps in a row to the last of as many good ones.

    Returns:
      what they have come to; metrics for the record, `monitor/NAME` being 1 where the monitor NAME holds and 0 where it
      does not; and, of those that begin to hold with this record, the messages.
    """
    after, metrics, messages = {}, {}, {}
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
                messages[name] = finding.message
        after[name] = Seen(known, holds, against)
        metrics |= {PREFIX + metric: value for metric, value in finding.metrics.items()}
        metrics[PREFIX + name] = float(holds)
    return after, metrics, messages


class Watch:
    """Has the monitors of a run look at each of its records.

    A warning is one line on stderr, and one line `{"step", "monitor", "message"}` in a file, which storage keeps at
    once. Of many hosts only the first watches.

    Args:
      monitors: by name.
      path: the file.
    """

    def __init__(self, monitors: Mapping[str, Monitor], path: str | Path):
        self._monitors = monitors if hosts.is_first() else {}
        self._seen = begin(self._monitors)
        self._path = Path(path)
        self._log = MetricLog(path)

    def recall(self, records: str | Path, step: int) -> None:
        """Takes up where the records of a log end, the last of which is that of `step`; later warnings are dropped."""
        self._log.truncate_after(step)
        if self._monitors:
            for record in metric_log.read(records):
                self._seen, _, _ = look(self._monitors, self._seen, record)

    def observe(self, step: int, record: Record) -> dict[str, float]:
        """Looks at the record of a step, and warns; returns the monitors' metrics."""
        self._seen, metrics, messages = look(self._monitors, self._seen, record)
        for name, message in messages.items():
            say(f"warning: {self._path.parent}, step {step}: {message}")
            self._log.write(step, {"monitor": name, "message": message})
            self._log.keep()
        return metrics

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
