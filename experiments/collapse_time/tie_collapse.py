"""How long noise alone takes to lose a tie, in small steps; derived, in the setting of arXiv 2601.21669."""

import math

import numpy as np

from ipsrl.checking.arguments import checked


@checked
def tie_collapse_time(
    group_size: int, step_size: float, reward: float = 1.0, threshold: float = 0.98
) -> float:
    """Mean number of updates after which noise alone brings one of two tied outcomes to `threshold`.

        G / (h r)^2 (U^2 / 2 + cosh U - 1),   U = ln(threshold / (1 - threshold))

    For expected return (alpha = 0) without a baseline, both rewards r, from the uniform policy; with a group mean a tie
    does not move at all. The log-ratio u has no drift and the variance 4 (h r)^2 p_1 p_2 / G an update; this is its
    mean exit time from |u| < U in the diffusion limit of small steps. Real steps overshoot and take longer: in
    simulations with h r from 1/4 to 2, G from 2 to 16 and threshold 0.98, by a share of up to 0.25 h r / sqrt(G). The
    state is not absorbing: the winner can still change. Beyond float64 it is inf, or 0.

    Raises:
      ValueError: the group is empty, the step size or the reward is not positive, or the threshold is not between 1/2
        and 1.
    """
    if group_size < 1:
        raise ValueError(f"group_size is {group_size}, a group has at least 1 sample")
    if not step_size > 0 or not reward > 0:
        raise ValueError(f"step_size ({step_size}) and reward ({reward}) must be positive")
    if not 0.5 < threshold < 1:
        raise ValueError(
            f"threshold is {threshold}, it must lie between 1/2, where a tie starts, and 1"
        )
    exit_ratio = math.log(threshold / (1 - threshold))
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        updates = group_size / np.float64(step_size * reward) ** 2
        return float(updates * (exit_ratio**2 / 2 + math.cosh(exit_ratio) - 1))
