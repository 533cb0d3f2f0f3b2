"""Measures of collapse and monitors for the logs of other trainers."""

import math
import warnings
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from ipsrl.integrations.guest import is_graded
from ipsrl.measures import diversity
from ipsrl.measures.pass_at_k import mean_pass_at_k
from ipsrl.records import warning_log
from ipsrl.records.monitors import make_monitors
from ipsrl.structures import Metrics, is_right

LOGGED = "ipsrl/"
"""Prefix of the names of our metrics in the log of another trainer."""
NAMES = {"token_entropy": "entropy"}
"""Names that monitors know, and what other trainers call these metrics."""

UNKNOWN = (
    "rewards of several positive sizes do not say which answers are right, so that pass@k and pcmd are not logged: "
    "give right_above, the highest reward of a wrong answer"
)


def means(metrics: Metrics) -> dict[str, float]:
    """`(sum, count)` pairs as numbers."""
    # All at once: a transfer of each would wait for the device each time.
    pairs = jax.device_get(metrics)
    return {name: float(total) / max(float(count), 1.0) for name, (total, count) in pairs.items()}


def group_measures(rewards: np.ndarray, outcome_id: np.ndarray, right_above: float | None = None) -> dict[str, float]:
    """Measures of groups `[P, G]` whose right answers have a reward above `right_above`.

    `pass@k` for the powers of two up to G; `right_above` itself; and `pcmd`, the diversity of the outcomes of right
    answers in groups that have any (`measures.diversity.collision_diversity`). `right_above` of None is 0; if rewards
    then have several positive sizes, nothing says which answers are right: there are no measures, but a warning.
    """
    rewards = np.asarray(rewards)
    if right_above is None and is_graded(rewards):
        warnings.warn(UNKNOWN, stacklevel=2)
        return {}
    right_above = float(right_above or 0.0)
    correct, group_size = is_right(rewards, right_above), rewards.shape[1]
    ks = [1 << power for power in range(group_size.bit_length())]
    passed = {f"pass@{k}": value for k, value in mean_pass_at_k(correct.sum(axis=1), group_size, ks).items()}
    passed["right_above"] = right_above
    solved = correct.any(axis=1)
    if solved.any():
        of_correct = np.where(correct, outcome_id, -1)[solved]
        passed["pcmd"] = float(diversity.collision_diversity(of_correct).mean())
    return passed


class Monitored:
    """The monitors of `ipsrl.records.monitors`, for the records of another trainer.

    Args:
      steps: of the run, where it is known: monitors warn sooner in a short one.
    """

    def __init__(self, steps: int = 0):
        made = make_monitors("all")
        self._monitors = {name: monitor.in_run(steps) if steps > 0 else monitor for name, monitor in made.items()}
        self._states = warning_log.initial_states(self._monitors)

    def observe(self, metrics: Mapping[str, Sequence[float]]) -> tuple[dict[str, float], list[str]]:
        """Metrics of the monitors, and sentences of those that start to warn, from the values since the last record."""
        record = {name.removeprefix(LOGGED): _mean(values) for name, values in metrics.items()}
        record |= {name: record[other] for name, other in NAMES.items() if other in record}
        self._states, found, begun = warning_log.observe(self._monitors, self._states, record)
        return found, [f"{finding.message}. {self._monitors[name].advice}" for name, finding in begun.items()]


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
