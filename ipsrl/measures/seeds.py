"""Means over few independent runs, with their uncertainty."""

import dataclasses
import math
from typing import Generic, TypeVar

import numpy as np
from scipy.special import betaincinv, stdtrit

from ipsrl.checking.arguments import checked, shown

LARGEST = 1e300
"""Size of a value of which differences are finite."""


Value = TypeVar("Value", float, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Interval(Generic[Value]):
    """A mean over seeds with its interval.

    Attributes:
      mean, low, high: numbers, or arrays `[...]` (one interval for each point of a curve). `low` and `high` are NaN if
        there is only one seed.
      seeds: S, number of runs.
    """

    mean: Value
    low: Value
    high: Value
    seeds: int

    def __str__(self) -> str:
        if np.ndim(self.mean):
            return f"Interval of shape {np.shape(self.mean)} over {self.seeds} seeds"
        if self.seeds == 1:
            return f"{self.mean:.2f} (1 seed)"
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


@checked
def mean_over_seeds(values: np.ndarray, level: float = 0.95) -> Interval:
    """Mean over seeds with its interval by Student's t, at each point of `values`.

    mean +- t s / sqrt(S), with the standard deviation s over S seeds and the quantile t of S - 1 degrees of freedom.
    For normal values it covers the true mean as often as it says, for any number of seeds; a bootstrap of three covers
    it in 75 % of cases, of five in 84 %. The interval of a bounded quantity, such as a share, may exceed its bounds.

    Args:
      values: `[S, ...]` floats of a size up to 1e300, one row for each seed.
      level: coverage, in (0, 1).

    Raises:
      ValueError: there is no seed, a value is too large, or `level` is not in (0, 1).
    """
    values = np.asarray(values, np.float64)
    if values.ndim == 0 or len(values) == 0 or not np.all(np.abs(values) <= LARGEST):
        raise ValueError(
            f"values is {shown(values.tolist())}, it must be [seed, ...] with at least one seed, and of a size up to "
            f"{LARGEST:g}"
        )
    _check_level(level)
    # Everything is averaged as deviations from one seed, so that equal values give exactly their common value.
    seeds, deviations = len(values), values - values[0]
    mean = values[0] + deviations.mean(axis=0)
    if seeds == 1:
        half = np.full_like(mean, np.nan)
    else:
        # Scaled, because squares of the largest values are not finite.
        scale = np.abs(deviations).max(axis=0)
        error = scale * (deviations / np.where(scale > 0, scale, 1.0)).std(axis=0, ddof=1) / math.sqrt(seeds)
        half = stdtrit(seeds - 1, (1 + level) / 2) * error
    low, high = mean - half, mean + half
    if values.ndim == 1:
        mean, low, high = float(mean), float(low), float(high)
    return Interval(mean=mean, low=low, high=high, seeds=seeds)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}, it must lie strictly between 0 and 1")


@checked
def share_of_runs(happened: np.ndarray, level: float = 0.95) -> Interval:
    """The share of runs `[N]` bool in which an event happened, with its exact binomial interval (Clopper and Pearson).

    If it happened in none or in all, the interval still bounds the share.

    Raises:
      ValueError: there is no run, something is neither true nor false, or `level` is not in (0, 1).
    """
    happened = np.asarray(happened)
    if happened.ndim != 1 or len(happened) == 0 or not np.isin(happened, (0, 1)).all():
        raise ValueError(
            f"happened is {shown(happened.tolist())}, it must be [run] with at least one run, each True or False"
        )
    _check_level(level)
    runs, times, tail = len(happened), int(happened.sum()), (1 - level) / 2
    low = float(betaincinv(times, runs - times + 1, tail)) if times else 0.0
    high = float(betaincinv(times + 1, runs - times, 1 - tail)) if times < runs else 1.0
    return Interval(times / runs, low, high, runs)
