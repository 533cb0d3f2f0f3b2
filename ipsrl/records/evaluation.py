"""Results of an evaluation, and the part of them that the run folder stores beside the metrics."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ipsrl.policies.policy import Parameters
from ipsrl.records.metric_log import Extent, MetricLog
from ipsrl.rollouts.sampled_answers import Completion

# Further ranks are summed into one number.
RANKS = 32
OUTCOMES, COMPLETIONS = "outcomes.jsonl", "completions.jsonl"


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Results of an evaluation.

    Attributes:
      metrics: name -> number.
      ranked_shares: shares of the outcomes, largest first, mean over prompts; their sum is at most 1, less if a prompt
        has no outcome. None if not measured.
      completions: some answers as text; those of the first and of the last evaluation are stored.
    """

    metrics: Mapping[str, float]
    ranked_shares: Sequence[float] | np.ndarray | None = None
    completions: Sequence[Completion] = ()


Evaluate = Callable[[int, Parameters], Evaluation]


def shared_at_start(evaluate: Evaluate) -> Evaluate:
    """Shares the evaluation at step 0 between runs that start with the same parameters: only the first computes it."""
    found: list[Evaluation] = []

    def evaluate_once(step: int, parameters: Parameters) -> Evaluation:
        if step:
            return evaluate(step, parameters)
        if not found:
            found.append(evaluate(step, parameters))
        return found[0]

    return evaluate_once


class EvaluationLog:
    """Two more files of JSON lines in a run folder, written if evaluations provide their content.

        outcomes.jsonl     {"step": 50, "ranked_shares": [0.5, 0.25], "rest": 0.0}; rest: sum of further ranks
        completions.jsonl  {"step": 0, "prompt_index": 3, "prompt": "...", "completion": "...", "reward": 1.0,
                           "outcome": "..."}; the outcome is null if there is none

    They are written and kept like `MetricLog`'s own file.
    """

    def __init__(self, folder: Path, last_step: int):
        self._folder, self._last_step = folder, last_step
        self._logs = {name: MetricLog(folder / name) for name in (OUTCOMES, COMPLETIONS) if (folder / name).exists()}

    def write(self, step: int, evaluation: Evaluation) -> None:
        """Appends the results other than metrics."""
        if evaluation.ranked_shares is not None:
            shares = np.asarray(evaluation.ranked_shares, np.float64)
            record = {"ranked_shares": shares[:RANKS].tolist(), "rest": float(shares[RANKS:].sum())}
            self._log(OUTCOMES).append({"step": step, **record})
        if step in (0, self._last_step):
            for completion in evaluation.completions:
                self._log(COMPLETIONS).append({"step": step, **dataclasses.asdict(completion)})

    def flush(self) -> None:
        """Flushes each file, see `MetricLog.flush`."""
        for log in self._logs.values():
            log.flush()

    @property
    def extents(self) -> dict[str, Extent]:
        """The `MetricLog.extent` of each file that has been begun."""
        return {name: log.extent for name, log in self._logs.items()}

    def _log(self, name: str) -> MetricLog:
        if name not in self._logs:
            self._logs[name] = MetricLog(self._folder / name)
        return self._logs[name]

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
