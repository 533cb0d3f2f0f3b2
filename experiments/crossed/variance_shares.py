"""How much of the variance of a result is explained by one choice, by another one, by both together, and by seeds."""

import numpy as np


def variance_shares(values: np.ndarray) -> np.ndarray:
    """Shares of the variance of `values` over seeds and two crossed choices (eta^2 of a two-way analysis of variance).

        first = var_a(mean over s, b) / var,   second = var_b(mean over s, a) / var,
        both = var_ab(mean over s) / var - first - second,   seeds = 1 - var_ab(mean over s) / var

    Args:
      values: `[S, A, B]`, one for each seed, two or more, first and second choice.

    Returns:
      `[4, S]`, of the first choice, of the second, of both (what the means of cells have beyond the sum of the two, the
      interaction) and of seeds (within cells). A number of each seed: the share, plus S - 1 times what leaving out that
      seed, the same in all cells, takes from it, less the mean of that. So their mean is the share, with the
      jackknife's standard error. A bootstrap repeats seeds: its cells vary less within, and its intervals can miss the
      share.
    """
    left_out = [_shares(np.delete(values, seed, axis=0)) for seed in range(len(values))]
    taken = np.mean(left_out, axis=0) - left_out
    return (_shares(values) + (len(values) - 1) * taken).T


def _shares(values: np.ndarray) -> np.ndarray:
    cells = values.mean(axis=0)
    first = cells.mean(axis=1).var()
    second = cells.mean(axis=0).var()
    both = cells.var() - first - second
    seeds = values.var() - cells.var()
    return np.array([first, second, both, seeds]) / values.var()
