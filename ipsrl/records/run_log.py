"""The files that a run writes while it trains: metrics, warnings and evaluations, consistent with its checkpoints."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any

from ipsrl.checking.regular_files import read_bytes
from ipsrl.distributed import hosts
from ipsrl.records.evaluation import COMPLETIONS, OUTCOMES, Evaluation, EvaluationLog
from ipsrl.records.json_files import replace_file
from ipsrl.records.metric_log import EVALUATION, Extent, MetricLog, extent_of
from ipsrl.records.monitors import make_monitors
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.trackers import Trackers
from ipsrl.records.warning_lines import WarningLines
from ipsrl.records.warning_log import WarningLog

# A non-finite reward can leave the loss finite for a while, above all in a discarded group (those count in
# `sampled_reward`, which only batch filters log); so can non-finite parameters.
MUST_BE_FINITE = ("reward", "sampled_reward", "loss", "gradient_norm", "parameter_norm")


METRICS, WARNINGS = "metrics.jsonl", "warnings.jsonl"
FILES = (METRICS, WARNINGS, OUTCOMES, COMPLETIONS)
Written = dict[str, Extent]
"""Name of a record file -> the extent of what has been written to it; files that are missing hold nothing."""


class NonFiniteLossError(FloatingPointError):
    """Training diverged; the message names the step and the last good checkpoint."""


def require_finite(metrics: Mapping[str, float], step: int, last_good: str) -> None:
    """Raises `NonFiniteLossError` if a metric of a step that must be finite is not.

    `last_good` is the checkpoint to return to, in words.
    """
    broken = [f"{name} {metrics[name]}" for name in MUST_BE_FINITE if not math.isfinite(metrics.get(name, 0.0))]
    if broken:
        raise NonFiniteLossError(f"step {step} has {', '.join(broken)}; last good checkpoint: {last_good}")


def lost(folder: Path, written: Any) -> str | None:
    """A phrase for what the record files do not hold of what was written; None if they hold all, and perhaps more.

    `written` is the result of `RunLog.written` at some step, as read from a file.
    """
    if not isinstance(written, dict) or not written.keys() <= set(FILES):
        return "it does not name the records that it continues"
    for name, extent in written.items():
        match extent:
            case {"bytes": int(length), "sha256": str()}:
                path = folder / name
            case _:
                return f"it does not say how much of {name} it continues"
        if length and not path.exists():
            return f"{name} is missing"
        if length and extent_of(read_bytes(path)[:length]) != extent:
            return f"records in {name} are lost or changed"
    return None


def cut(folder: Path, written: Written) -> None:
    """Drops what the record files hold beyond what was written, each atomically, on the first host."""
    for name in FILES if hosts.is_first() else ():
        path, length = folder / name, written[name]["bytes"] if name in written else 0
        if length:
            replace_file(path, read_bytes(path)[:length])
        else:
            path.unlink(missing_ok=True)


class RunLog(AbstractContextManager["RunLog"]):
    """metrics.jsonl, warnings.jsonl and the files of `EvaluationLog` in a run folder, and the trackers of the metrics.

    A context manager. It goes on after the last of the records in the folder: `cut` those of later steps before.

    Args:
      monitors: names of the monitors, see `make_monitors`.
      trackers: names of further receivers of the metrics, see `ipsrl.records.trackers`.
      warnings: prints the warnings of all runs that belong together; by default there are no others.
    """

    def __init__(
        self,
        folder: RunFolder,
        monitors: str,
        last_step: int,
        trackers: Sequence[str] = (),
        warnings: WarningLines | None = None,
    ):
        self._folder = folder
        with ExitStack() as stack:
            tracker = stack.enter_context(Trackers(trackers, folder))
            self._metrics = stack.enter_context(MetricLog(folder.metrics_path, tracker))
            self._evaluations = stack.enter_context(closing(EvaluationLog(folder.path, last_step)))
            lines = warnings or stack.enter_context(WarningLines())
            watching = {name: monitor.in_run(last_step) for name, monitor in make_monitors(monitors).items()}
            self._warnings = stack.enter_context(closing(WarningLog(watching, folder.path / WARNINGS, lines)))
            self._warnings.recall(folder.metrics_path)
            self._open = stack.pop_all()

    def written(self) -> Written:
        """The extents of all files so far; on other hosts than the first those of nothing."""
        return {METRICS: self._metrics.extent, WARNINGS: self._warnings.extent, **self._evaluations.extents}

    def write(self, step: int, metrics: Mapping[str, float], evaluation: Evaluation | None = None) -> None:
        """Writes a step with its evaluation, if there was one; at step 0 only the evaluation."""
        record = dict(metrics)
        if evaluation is not None:
            self._evaluations.write(step, evaluation)
            record |= {EVALUATION + name: value for name, value in evaluation.metrics.items()}
        self._metrics.write(step, record | self._warnings.observe(step, record))

    def flush(self) -> None:
        """Flushes to storage, so that a crash of the machine loses nothing."""
        self._metrics.flush()
        self._evaluations.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)
