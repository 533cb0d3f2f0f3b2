"""Runs of different speed, compared where their reward first reaches the same bar."""

import numpy as np

BAR = 0.9
"""The reward at which outcomes are compared, as a share of the best possible one."""


def at_reward(rewards: np.ndarray, values: np.ndarray, bar: float = BAR) -> float:
    """The value where rewards `[U]` first reach the bar, linear between measurements; NaN if they never do.

    This does not depend on the speed of training, and so neither on the learning rate, as long as steps are small.
    """
    reached = np.flatnonzero(rewards >= bar)
    if not len(reached):
        return float("nan")
    around = slice(max(reached[0] - 1, 0), reached[0] + 1)
    return float(np.interp(bar, rewards[around], values[around]))
