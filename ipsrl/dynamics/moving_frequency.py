"""Inverse probability scaling by a moving average of the frequencies of earlier groups: cost and gain of memory.

    pbar <- (1 - b) pbar + b phat,     weight max(pbar, floor)^(-alpha),     rate 0 < b <= 1

Memory acts like a larger group, but with delayed weights. Derived for groups of G samples in which phat is unbiased;
the objective is `ips_reinforce(probability=ema)` of the catalog. The average needs a table of outcomes. After arXiv
2601.21669, which counts in each group separately (b = 1).
"""

import numpy as np

from ipsrl.arguments import checked


@checked
def variance(probability: np.ndarray, group_size: int, rate: float) -> np.ndarray:
    """Variance of pbar while the policy does not move: b / (2 - b) p (1 - p) / G.

    Raises:
      ValueError: the group is empty, the rate is not in (0, 1], or a probability is not in [0, 1].
    """
    probability = np.asarray(probability, np.float64)
    if not np.all((probability >= 0) & (probability <= 1)):
        raise ValueError(f"probability must lie between 0 and 1, but it is {probability}")
    return probability * (1 - probability) / effective_group_size(group_size, rate)


@checked
def effective_group_size(group_size: int, rate: float) -> float:
    """G (2 - b) / b, the group size at which counts vary as little as pbar while the policy does not move.

    Raises:
      ValueError: the group is empty, or the rate is not in (0, 1].
    """
    _check(group_size, rate)
    return group_size * (2 - rate) / rate


@checked
def lag(drift: float, rate: float) -> float:
    """Lag of pbar behind a probability that drifts by `drift` an update: (1 - b) / b times the drift.

    Raises:
      ValueError: the rate is not in (0, 1].
    """
    _check(1, rate)
    return (1 - rate) / rate * drift


@checked
def distortion(probability: np.ndarray, group_size: int, rate: float, alpha: float) -> np.ndarray:
    """E[phat pbar^(-alpha)] / p^(1 - alpha) - 1 while the policy does not move, to first order in b (1 - p) / (G p).

        alpha b (1 - p) / (G p) ((alpha + 1) / (2 (2 - b)) - 1)

    It is negative for small b and 0 < alpha < 3, because pbar includes the sample that it weighs. It vanishes as b ->
    0; b = 1 gives the first order of `finite_groups.distortion`. For an inactive floor and G p / b well above 1.

    Raises:
      ValueError: the group is empty, the rate is not in (0, 1], alpha is negative, or a probability is not in (0, 1].
    """
    _check(group_size, rate)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    probability = np.asarray(probability, np.float64)
    if not np.all((probability > 0) & (probability <= 1)):
        raise ValueError(f"probability must lie above 0 and not above 1, but it is {probability}")
    share = alpha * rate * (1 - probability) / (group_size * probability)
    return share * ((alpha + 1) / (2 * (2 - rate)) - 1)


@checked
def rates_with_memory(memory_rate: float, restoring_rate: float) -> np.ndarray:
    """The two rates s `[2]` complex, per unit of time, at which a deviation e^(s t) from rest decays with memory.

        s^2 + kappa s + kappa lambda = 0,    kappa = b / (step size),    lambda without memory (`step_sizes`)

    In the limit of small steps at fixed kappa. The policy oscillates (complex s) if kappa < 4 lambda, that is b < 4
    (step size) lambda. At kappa = 4 lambda it decays fastest, with s = -2 lambda: twice as fast as without memory.

    Raises:
      ValueError: a rate is not positive.
    """
    if not memory_rate > 0 or not restoring_rate > 0:
        raise ValueError(f"memory_rate ({memory_rate}) and restoring_rate ({restoring_rate}) must be positive")
    root = np.sqrt(complex(memory_rate**2 - 4 * memory_rate * restoring_rate))
    return np.array([-memory_rate - root, -memory_rate + root]) / 2


def _check(group_size: int, rate: float) -> None:
    if group_size < 1:
        raise ValueError(f"group_size is {group_size}, a group has at least 1 sample")
    if not 0 < rate <= 1:
        raise ValueError(f"rate is {rate}, it must lie above 0 and not above 1")
