"""Whether two places put the same subjects in the same order, with the uncertainty of few independent runs."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from ipsrl.arguments import checked
from ipsrl.measures.seeds import Interval

RESAMPLES, LEVEL = 10_000, 0.95
FEWEST = 4
"""Of three subjects every other order has a correlation of a half or more, up or down."""
TIE = 2
"""Decimals to which means are compared: what differs by less is a tie."""


@dataclasses.dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation of the means of N subjects.

    Attributes:
      interval: with a 95 % bootstrap interval over seeds; NaN ends if some subject has a single seed.
      least, most: the range when one subject is left out.
      subjects: N.
    """

    interval: Interval
    least: float
    most: float
    subjects: int


@checked
def rank_correlation(first: Sequence[np.ndarray | float], second: Sequence[np.ndarray | float]) -> RankCorrelation:
    """Spearman's rank correlation of means over seeds.

    The interval is of the percentile bootstrap: seeds are resampled within each subject and place, the subjects stay.
    Means that are the same when rounded to 0.01 share a rank. If all are the same in one place, the correlation is NaN;
    such resamples are ignored. The resamples come from a fixed random seed.

    Args:
      first, second: for each of N subjects its values in that place, `[S]`, or a number where nothing is random.

    Raises:
      ValueError: N is below 4 or differs, or a value is missing or not finite.
    """
    subjects = len(first)
    if subjects < FEWEST or len(second) != subjects:
        raise ValueError(f"first has {subjects} subjects and second {len(second)}, but both need {FEWEST} or more")
    places = [[np.asarray(values, np.float64) for values in place] for place in (first, second)]
    if not all(values.ndim < 2 and values.size for place in places for values in place):
        raise ValueError("each subject must have a number in first and in second, or one for each seed")
    means = [np.array([[values.mean() for values in place]]) for place in places]
    (value,) = _spearman(*means)
    left_out = [_spearman(*(np.delete(mean, subject, axis=1) for mean in means))[0] for subject in range(subjects)]
    seeds = min((len(values) for place in places for values in place if values.ndim), default=0)
    low = high = np.nan if seeds else value
    if seeds > 1:
        rng = np.random.default_rng(0)
        resampled = _spearman(*(np.column_stack([_means(values, rng) for values in place]) for place in places))
        if not np.isnan(resampled).all():
            low, high = np.nanquantile(resampled, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return RankCorrelation(
        Interval(float(value), float(low), float(high), seeds), float(min(left_out)), float(max(left_out)), subjects
    )


def _means(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`[R]`, means of resamples of `[S]`, or the number."""
    if values.ndim == 0:
        return np.full(RESAMPLES, values)
    return values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)


def _spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`[R]`, of each pair of rows `[R, N]`; NaN where a row is constant."""
    ranks = [rankdata(np.round(rows, TIE), axis=1) for rows in (first, second)]
    one, two = (rows - rows.mean(axis=1, keepdims=True) for rows in ranks)
    with np.errstate(invalid="ignore"):
        return (one * two).sum(axis=1) / np.sqrt((one**2).sum(axis=1) * (two**2).sum(axis=1))
