"""Slopes of power laws."""

from collections.abc import Sequence

import numpy as np


def log_slopes(along: np.ndarray | Sequence[float], values: np.ndarray) -> np.ndarray:
    """`[...]`, the least-squares slopes of log values `[..., B]` over log `along` `[B]`.

    NaN where a value is not positive, or where all of `along` are equal.
    """
    places = np.log(along) - np.log(along).mean()
    with np.errstate(invalid="ignore"):
        return np.log(np.where(values > 0, values, np.nan)) @ places / (places @ places)
