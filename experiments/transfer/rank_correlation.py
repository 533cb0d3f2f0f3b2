"""Whether two levels put the same subjects in the same order, with the uncertainty of few independent runs."""

import dataclasses

import numpy as np
from scipy.stats import rankdata

from ipsrl.checking.arguments import checked
from ipsrl.measures.seeds import Interval

RESAMPLES, LEVEL = 10_000, 0.95
FEWEST = 4
"""Fewest subjects: with three, every second order has a correlation of at least a half, up or down."""
TIE = 2
"""Decimals to which means are compared: what differs by less is a tie."""


@dataclasses.dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation of the means of N subjects.

    Attributes:
      interval: with a 95 % bootstrap interval over seeds; NaN ends if a place has one seed.
      least, most: the range when one subject is left out, where a correlation is left.
      subjects: N.
    """

    interval: Interval
    least: float
    most: float
    subjects: int


@checked
def rank_correlation(first: np.ndarray, second: np.ndarray) -> RankCorrelation:
    """Spearman's rank correlation of means over seeds.

    The interval is of the percentile bootstrap: in each place its seeds are resampled, each with the values of all
    subjects, because what a seed decides, such as the initial policy, may be the same for all; the subjects stay. Means
    that are the same when rounded to 0.01 share a rank. If all are the same in one place, the correlation is NaN; such
    resamples are ignored. The resamples come from a fixed random seed.

    Args:
      first, second: of N subjects in that place, `[S, N]`, a row for each seed, or `[N]` where nothing is random.

    Raises:
      ValueError: N is below 4 or differs, or there is no seed.
    """
    places = [np.asarray(place, np.float64) for place in (first, second)]
    shapes = [place.shape for place in places]
    if any(len(shape) not in (1, 2) or 0 in shape or shape[-1] < FEWEST for shape in shapes):
        raise ValueError(
            f"first and second have shapes {shapes}, they must be [seed, subject] with {FEWEST} or more"
        )
    if shapes[0][-1] != shapes[1][-1]:
        raise ValueError(
            f"first has {shapes[0][-1]} subjects and second {shapes[1][-1]}: give the same ones"
        )
    one, two = (place.reshape(-1, place.shape[-1]).mean(axis=0) for place in places)
    subjects, seeds = len(one), min((len(place) for place in places if place.ndim == 2), default=0)
    value = float(_spearman(one, two))
    left_out = [
        float(_spearman(np.delete(one, subject), np.delete(two, subject)))
        for subject in range(subjects)
    ]
    # Without its only other subject a place is constant.
    left_out = [each for each in left_out if not np.isnan(each)] or [np.nan]
    low = high = np.nan if seeds else value
    if seeds > 1:
        rng = np.random.default_rng(0)
        resampled = _spearman(*(_resampled(place, rng) for place in places))
        if not np.isnan(resampled).all():
            low, high = map(float, np.nanquantile(resampled, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)))
    return RankCorrelation(
        Interval(value, low, high, seeds), min(left_out), max(left_out), subjects
    )


def _resampled(place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`[R, N]`, means over resamples of the seeds of `[S, N]`; or `[N]` as it is."""
    if place.ndim == 1:
        return place
    return place[rng.integers(len(place), size=(RESAMPLES, len(place)))].mean(axis=1)


def _spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`[...]`, of `[..., N]` each; NaN where one is constant."""
    ranks = [rankdata(np.round(values, TIE), axis=-1) for values in (first, second)]
    one, two = (values - values.mean(axis=-1, keepdims=True) for values in ranks)
    with np.errstate(invalid="ignore"):
        return (one * two).sum(axis=-1) / np.sqrt((one**2).sum(axis=-1) * (two**2).sum(axis=-1))
