"""Applies monitors to a run: metrics go into its records, warnings to a file and to the terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ipsrl.distributed import hosts
from ipsrl.records import metric_log
from ipsrl.records.metric_log import Extent, MetricLog
from ipsrl.records.monitors import PREFIX, Finding, Monitor, Record
from ipsrl.records.warning_lines import WarningLines


class MonitorState(NamedTuple):
    """Memory of a monitor, whether it fires, and for how many steps in a row the evidence has pointed the other way."""

    memory: Any
    firing: bool = False
    against: int = 0


def initial_states(monitors: Mapping[str, Monitor]) -> dict[str, MonitorState]:
    """States of the monitors before the first record."""
    return {name: MonitorState(monitor.start) for name, monitor in monitors.items()}


def observe(
    monitors: Mapping[str, Monitor], states: Mapping[str, MonitorState], record: Record
) -> tuple[dict[str, MonitorState], dict[str, float], dict[str, Finding]]:
    """Passes one record to all monitors.

    A monitor fires from the last of `steps` bad steps in a row to the last of as many good ones.

    Returns:
      their new states; metrics for the record, with `monitor/NAME` 1 while the monitor NAME fires and else 0; and the
        findings of those that start to fire with this record.
    """
    after, metrics, begun = {}, {}, {}
    for name, monitor in monitors.items():
        memory, finding = monitor.observe(states[name].memory, record)
        after[name] = states[name]._replace(memory=memory)
        if finding is None:
            continue
        firing, against = states[name].firing, states[name].against + 1
        if finding.bad in (firing, None):
            against = 0
        elif against == monitor.steps:
            firing, against = not firing, 0
            if firing:
                begun[name] = finding
        after[name] = MonitorState(memory, firing, against)
        metrics |= {PREFIX + metric: value for metric, value in finding.metrics.items()}
        metrics[PREFIX + name] = float(firing)
    return after, metrics, begun


class WarningLog:
    """Applies the monitors of a run to each of its records.

    A warning is one line `{"step", "monitor", "message"}` in a file, flushed to storage at once, and a short line on
    the terminal. With many hosts, only the first runs monitors. The file lies in the folder of the run; `lines` also
    prints the warnings of the runs beside it.
    """

    def __init__(self, monitors: Mapping[str, Monitor], path: str | Path, lines: WarningLines):
        self._monitors = monitors if hosts.is_first() else {}
        self._seen = initial_states(self._monitors)
        self._path = Path(path)
        self._log = MetricLog(path)
        self._lines = lines

    def recall(self, records: str | Path) -> None:
        """Restores the states from the records of a log."""
        if self._monitors:
            for record in metric_log.read(records):
                self._seen, _, _ = observe(self._monitors, self._seen, record)

    def observe(self, step: int, record: Record) -> dict[str, float]:
        """Processes the record of a step, and warns; returns the monitors' metrics."""
        self._seen, metrics, begun = observe(self._monitors, self._seen, record)
        for name, finding in begun.items():
            monitor = self._monitors[name]
            self._log.write(step, {"monitor": name, "message": f"{finding.message}: {monitor.advice}"})
            self._log.flush()
            self._lines.warn(self._path.parent, step, name, monitor, finding)
        return metrics

    @property
    def extent(self) -> Extent:
        """The `MetricLog.extent` of the log."""
        return self._log.extent

    def close(self) -> None:
        self._log.close()
