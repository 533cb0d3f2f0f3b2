"""Continuous-time training of a softmax over outcomes, in float64: the limit of many samples and small steps.

A policy chooses one of K outcomes with p = softmax(z); outcome i has reward r_i. Time is (number of updates) x (step
size). Sources: arXiv 2601.21669 (expected return and inverse probability scaling); the exponent alpha generalises both.
"""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import log_softmax, softmax

from ipsrl.checking.arguments import checked

LARGEST_LOG_RATIO = 700.0
"""Largest log-ratio of two probabilities, in either direction, of which float64 holds the exponential."""

LATEST = 1e12
"""Last time to which flows are integrated: later, 1 - p of an outcome that has won is lost in rounding."""


@checked
def flow_velocity(logits: np.ndarray, rewards: np.ndarray, alpha: float) -> np.ndarray:
    """dz/dt `[K]` if every reward is divided by the (gradient-stopped) probability of its outcome to the power alpha.

        dz_i/dt = r_i p_i^(1 - alpha) - p_i sum_k r_k p_k^(1 - alpha)

    alpha = 0 is expected return, dz_i/dt = p_i (r_i - mean reward); alpha = 1 is inverse probability scaling,
    dz_i/dt = r_i - p_i sum_k r_k. With alpha > 0 it comes from every interior start to p ~ r^(1 / alpha).

    Raises:
      ValueError: the shapes differ, or alpha is negative.
    """
    logits, rewards = checked_outcomes(logits, rewards)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    weighted_rewards = rewards * np.exp((1.0 - alpha) * log_softmax(logits))
    return weighted_rewards - softmax(logits) * weighted_rewards.sum()


@checked
def integrate(velocity: Callable[[np.ndarray], np.ndarray], logits: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Logits `[T, K]` at `times` `[T]` of the flow dz/dt = velocity(z), from `logits` `[K]` at time 0.

    Relative tolerance 1e-10, absolute 1e-12; the method (LSODA) becomes implicit where the flow is stiff.

    Raises:
      ValueError: the times are negative, not strictly increasing or after `LATEST`, or the integration fails before the
        last time (for alpha > 1 the flow is arbitrarily stiff near the boundary).
    """
    times = np.asarray(times, np.float64)
    if times.ndim != 1 or len(times) == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError("times must be a strictly increasing [T] array that starts at 0 or later")
    if times[-1] > LATEST:
        raise ValueError(f"the flow cannot be integrated to time {times[-1]:g}: the last time may be {LATEST:g}")
    start = np.asarray(logits, np.float64)
    if times[-1] == 0:
        return start[None]
    with warnings.catch_warnings():
        # They are about the error raised below.
        warnings.filterwarnings("ignore", "lsoda", UserWarning)
        solution = solve_ivp(
            lambda _, z: velocity(z), (0.0, times[-1]), start, method="LSODA", t_eval=times, rtol=1e-10, atol=1e-12
        )
    if not solution.success:
        raise ValueError(f"the flow cannot be integrated to time {times[-1]:g}: it is too stiff, take an earlier time")
    return solution.y.T


def checked_outcomes(values: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 arrays; raises ValueError unless both are `[K]`."""
    values, rewards = np.asarray(values, np.float64), np.asarray(rewards, np.float64)
    if values.ndim != 1 or values.shape != rewards.shape:
        raise ValueError(f"two arrays must both be [outcome], but their shapes are {values.shape} and {rewards.shape}")
    return values, rewards


def checked_distribution(probs: np.ndarray) -> np.ndarray:
    """`probs` as a float64 array; raises ValueError unless it is a distribution `[K]`."""
    probs = np.asarray(probs, np.float64)
    if probs.ndim != 1 or np.any(probs < 0) or not np.isclose(probs.sum(), 1.0, rtol=0.0, atol=1e-6):
        raise ValueError(f"distribution must be [outcome], non-negative, and sum to 1, but it is {probs}")
    return probs
