"""How much of the variance of a result is explained by one choice, by another one, by both together, and by seeds."""

import dataclasses

import numpy as np

from ipsrl.arguments import checked, shown
from ipsrl.measures.seeds import Interval


@dataclasses.dataclass(frozen=True)
class VarianceShares:
    """eta^2 of a two-way analysis of variance with bootstrap intervals over seeds; the four means add up to 1.

    Attributes:
      first, second: of the means over the other choice.
      both: of what the means of cells have beyond the sum of the two, the interaction.
      seeds: of seeds within cells.
    """

    first: Interval
    second: Interval
    both: Interval
    seeds: Interval


@checked
def variance_shares(values: np.ndarray, level: float = 0.95, resamples: int = 2000) -> VarianceShares:
    """Shares of the variance of `values` over seeds and two crossed choices.

        first = var_a(mean over s, b) / var,   second = var_b(mean over s, a) / var,
        both = var_ab(mean over s) / var - first - second,   seeds = 1 - var_ab(mean over s) / var

    Seeds are resampled whole, the same ones in all cells, from a fixed random seed. A resample repeats seeds, so that
    its cells vary less within: the intervals of `seeds` reach rather too low than too high.

    Args:
      values: `[S, A, B]` finite numbers, one for each seed, first and second choice.
      level: nominal coverage, in (0, 1).
      resamples: number of bootstrap resamples.

    Raises:
      ValueError: `values` has another rank, fewer than two seeds, no variance, or is not finite.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 3 or len(values) < 2:
        raise ValueError(f"values must be [seed, first, second] with two seeds or more, not {shown(values)}")
    if values.std() == 0:
        raise ValueError("values are all the same: there is no variance to explain")
    draws = np.random.default_rng(0).multinomial(len(values), np.full(len(values), 1 / len(values)), size=resamples)
    found, resampled = (
        _shares(np.full((1, len(values)), 1 / len(values)), values)[0],
        _shares(draws / len(values), values),
    )
    low, high = np.quantile(resampled, ((1 - level) / 2, (1 + level) / 2), axis=0)
    return VarianceShares(*(Interval(*map(float, ends), len(values)) for ends in zip(found, low, high, strict=True)))


def _shares(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`[R, 4]`, the shares under `[R, S]` weights of the seeds."""
    deviations = values - values.mean()
    cells, squares = (np.tensordot(weights, power, axes=1) for power in (deviations, deviations**2))
    total = squares.mean(axis=(1, 2)) - cells.mean(axis=(1, 2)) ** 2
    first, second = cells.mean(axis=2).var(axis=1), cells.mean(axis=1).var(axis=1)
    between = cells.var(axis=(1, 2))
    return np.stack([first, second, between - first - second, total - between], axis=1) / total[:, None]
