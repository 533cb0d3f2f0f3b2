"""The files that a run writes while it trains: metrics, warnings and evaluations, consistent with its checkpoints."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Self

from ipsrl.distributed import hosts
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation, EvaluationLog
from ipsrl.records.metric_log import EVALUATION, MetricLog
from ipsrl.records.monitors import make_monitors
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.trackers import Trackers
from ipsrl.records.warning_lines import WarningLines
from ipsrl.records.warning_log import WarningLog

# A non-finite reward can leave the loss finite for a while, above all in a discarded group (those count in
# `sampled_reward`, which only batch filters log); so can non-finite parameters.
MUST_BE_FINITE = ("reward", "sampled_reward", "loss", "gradient_norm", "parameter_norm")


class NonFiniteLossError(FloatingPointError):
    """Training diverged; the message names the step and the last good checkpoint."""


def require_finite(metrics: Mapping[str, float], step: int, last_good: str) -> None:
    """Raises `NonFiniteLossError` if a metric that must be finite is not.

    Args:
      metrics: of step number `step`, from 1.
      last_good: the checkpoint to return to, in words.
    """
    broken = [f"{name} {metrics[name]}" for name in MUST_BE_FINITE if not math.isfinite(metrics.get(name, 0.0))]
    if broken:
        raise NonFiniteLossError(f"step {step} has {', '.join(broken)}; last good checkpoint: {last_good}")


class RunLog:
    """metrics.jsonl, warnings.jsonl and the files of `EvaluationLog` in a run folder, and the trackers of the metrics.

    A context manager. Call `start_after` before anything else.

    Args:
      folder: of the run.
      monitors: names of the monitors, see `make_monitors`.
      last_step: last step of the run.
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
        with contextlib.ExitStack() as stack:
            tracker = stack.enter_context(Trackers(trackers, folder))
            self._metrics = stack.enter_context(MetricLog(folder.metrics_path, tracker))
            self._evaluations = stack.enter_context(EvaluationLog(folder.path, last_step))
            lines = warnings or stack.enter_context(WarningLines())
            self._warnings = stack.enter_context(WarningLog(make_monitors(monitors), folder.warnings_path, lines))
            self._open = stack.pop_all()

    def reach(self, evaluated: bool) -> int:
        """The last step up to which metrics.jsonl has all records; with evaluations, step 0 has one too."""

        def of_file() -> int:
            records = metric_log.read(self._folder.metrics_path)
            return metric_log.unbroken(records, 0 if evaluated else 1)

        return hosts.broadcast(hosts.first_does(of_file))

    def start_after(self, step: int) -> None:
        """Drops the records of later steps; a run that starts after step 0 writes its first evaluation again."""
        kept = step or -1
        self._metrics.truncate_after(kept)
        self._evaluations.truncate_after(kept)
        self._warnings.recall(self._folder.metrics_path, kept)

    def write(self, step: int, metrics: Mapping[str, float], evaluation: Evaluation | None = None) -> None:
        """Writes a step with its evaluation, if there was one; at step 0 only the evaluation."""
        record = dict(metrics)
        if evaluation is not None:
            self._evaluations.write(step, evaluation)
            record |= {EVALUATION + name: value for name, value in evaluation.metrics.items()}
        self._metrics.write(step, record | self._warnings.observe(step, record))

    def keep(self) -> None:
        """Flushes to storage, so that a crash of the machine loses nothing."""
        self._metrics.keep()
        self._evaluations.keep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.__exit__(*exception)
