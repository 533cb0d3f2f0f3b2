"""How much of the variance of a result is explained by one choice, by another one, by both together, and by seeds."""

import dataclasses

import numpy as np
from scipy.special import stdtrit

from ipsrl.arguments import checked, shown
from ipsrl.measures.seeds import Interval


@dataclasses.dataclass(frozen=True)
class VarianceShares:
    """eta^2 of a two-way analysis of variance with jackknife intervals over seeds; the first four means add up to 1.

    Attributes:
      first, second: of the means over the other choice.
      both: of what the means of cells have beyond the sum of the two, the interaction.
      seeds: of seeds within cells.
      lead: by how much `first` is above `second`.
    """

    first: Interval
    second: Interval
    both: Interval
    seeds: Interval
    lead: Interval


@checked
def variance_shares(values: np.ndarray, level: float = 0.95) -> VarianceShares:
    """Shares of the variance of `values` over seeds and two crossed choices.

        first = var_a(mean over s, b) / var,   second = var_b(mean over s, a) / var,
        both = var_ab(mean over s) / var - first - second,   seeds = 1 - var_ab(mean over s) / var

    A seed is left out whole, the same one in all cells. Intervals are the share +- t times the jackknife's standard
    error, with t of one degree of freedom less than seeds: a bootstrap repeats seeds, so that its cells vary less
    within, and its intervals can miss the share itself.

    Args:
      values: `[S, A, B]` finite numbers, one for each seed, first and second choice.
      level: nominal coverage, in (0, 1).

    Raises:
      ValueError: `values` has another rank, fewer than two seeds, no variance, or is not finite.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 3 or len(values) < 2:
        raise ValueError(
            f"values must be [seed, first, second] with two seeds or more, not {shown(values)}"
        )
    if values.std() == 0:
        raise ValueError("values are all the same: there is no variance to explain")
    seeds = len(values)
    found = _shares(np.full((1, seeds), 1 / seeds), values)[0]
    left_out = _shares((1 - np.eye(seeds)) / (seeds - 1), values)
    error = np.sqrt((seeds - 1) * left_out.var(axis=0)) * stdtrit(seeds - 1, (1 + level) / 2)
    ends = zip(found, found - error, found + error, strict=True)
    return VarianceShares(*(Interval(*map(float, interval), seeds) for interval in ends))


def _shares(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`[R, 5]`, the shares, and how far the first leads the second, under `[R, S]` weights of the seeds."""
    deviations = values - values.mean()
    cells, squares = (np.tensordot(weights, power, axes=1) for power in (deviations, deviations**2))
    total = squares.mean(axis=(1, 2)) - cells.mean(axis=(1, 2)) ** 2
    first, second = cells.mean(axis=2).var(axis=1), cells.mean(axis=1).var(axis=1)
    between = cells.var(axis=(1, 2))
    return (
        np.stack([first, second, between - first - second, total - between, first - second], axis=1)
        / total[:, None]
    )
