"""Whether two places put the same subjects in the same order."""

import numpy as np
from scipy.stats import spearmanr


def rank_correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`[S]`, Spearman's rank correlation of each row of `[S, N]` and `[S, N]`; NaN where one of the two is constant."""
    rows = zip(first, second, strict=True)
    # Of constant values SciPy warns.
    return np.array([spearmanr(*row).statistic if all(map(np.ptp, row)) else np.nan for row in rows])
