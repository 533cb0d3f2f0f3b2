"""Continuous-time training of a softmax over outcomes, in float64: what infinitely many samples and small steps do.

A policy chooses one of K outcomes with p = softmax(z); outcome i pays r_i. Time is (number of updates) x (step size).
Sources: arXiv 2601.21669 (expected return and inverse probability scaling); the exponent alpha generalises both.
"""

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import newton
from scipy.special import log_softmax, softmax


def flow_velocity(logits: np.ndarray, rewards: np.ndarray, alpha: float) -> np.ndarray:
    """dz/dt `[K]` when every reward is divided by the (gradient-stopped) probability of its outcome to the power alpha.

        dz_i/dt = r_i p_i^(1 - alpha) - p_i sum_k r_k p_k^(1 - alpha)

    alpha = 0 is expected return, dz_i/dt = p_i (r_i - mean reward); alpha = 1 is inverse probability scaling,
    dz_i/dt = r_i - p_i sum_k r_k.

    Raises:
      ValueError: the shapes differ, or alpha is negative.
    """
    logits, rewards = np.asarray(logits, np.float64), np.asarray(rewards, np.float64)
    if logits.ndim != 1 or logits.shape != rewards.shape:
        raise ValueError(f"logits {logits.shape} and rewards {rewards.shape} must both be [outcome]")
    if alpha < 0:
        raise ValueError(f"alpha is {alpha}, must not be negative")
    pushes = rewards * np.exp((1.0 - alpha) * log_softmax(logits))
    return pushes - softmax(logits) * pushes.sum()


def integrate(velocity: Callable[[np.ndarray], np.ndarray], logits: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Logits `[T, K]` at `times` `[T]` of the flow dz/dt = velocity(z) that starts from `logits` `[K]` at time 0.

    Relative tolerance 1e-10, absolute 1e-12; the method (LSODA) turns implicit by itself where the flow is stiff.

    Raises:
      ValueError: the times are negative or not strictly increasing.
      RuntimeError: the flow could not be integrated (for alpha > 1 it is arbitrarily stiff near the boundary).
    """
    times = np.asarray(times, np.float64)
    if times.ndim != 1 or len(times) == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError("times must be a strictly increasing [T] array that starts at 0 or later")
    start = np.asarray(logits, np.float64)
    if times[-1] == 0:
        return start[None]
    solution = solve_ivp(
        lambda _, z: velocity(z), (0.0, times[-1]), start, method="LSODA", t_eval=times, rtol=1e-10, atol=1e-12
    )
    if not solution.success:
        raise RuntimeError(f"the flow could not be integrated to time {times[-1]}: {solution.message}")
    return solution.y.T


def stationary_law(rewards: np.ndarray, alpha: float) -> np.ndarray:
    """The law `[K]` at which `flow_velocity` rests, proportional to r^(1 / alpha): its limit from every interior start.

    Outcomes without reward get 0, which the flow reaches only as time goes to infinity.

    Raises:
      ValueError: alpha is not positive (expected return has no such law: it goes to the best outcomes, and its limit
        depends on the start), a reward is negative, or no reward is positive.
    """
    rewards = np.asarray(rewards, np.float64)
    if alpha <= 0:
        raise ValueError(f"alpha is {alpha}, but only a positive alpha has a stationary law that forgets the start")
    if np.any(rewards < 0) or not np.any(rewards > 0):
        raise ValueError("rewards must not be negative, and at least one must be positive")
    # Divided by the largest reward first, so that a small alpha does not overflow.
    scaled = (rewards / rewards.max()) ** (1.0 / alpha)
    return scaled / scaled.sum()


def two_outcome_log_ratio(times: np.ndarray, start: float, reward_gap: float) -> np.ndarray:
    """Log-ratio u = ln(p_1 / p_2) at `times` under the flow of expected return with two outcomes, exactly.

    du/dt = Delta / (1 + cosh u), with Delta = r_1 - r_2 the reward gap, so that u + sinh u = Delta t + constant.
    Early the ratio moves linearly, late p_2 falls as 1 / (2 Delta t). A gap of 0 leaves u where it is.

    Args:
      times: any shape.
      start: u at time 0.
      reward_gap: Delta, of either sign.
    """
    right_side = reward_gap * np.asarray(times, np.float64) + start + np.sinh(start)
    # u + sinh u is convex for u > 0 and concave for u < 0, and |arcsinh c| >= |u|: from there Newton's steps are
    # monotone and cannot overshoot.
    return newton(
        lambda u: u + np.sinh(u) - right_side, np.arcsinh(right_side), fprime=lambda u: 1 + np.cosh(u), tol=1e-10
    )


def two_outcome_time(start: float, end: float, reward_gap: float) -> float:
    """Time in which expected return with two outcomes takes ln(p_1 / p_2) from `start` to `end`.

        t = (end + sinh end - start - sinh start) / Delta

    Raises:
      ValueError: the flow never goes there: the gap is 0 or points the other way.
    """
    if reward_gap * (end - start) <= 0 and start != end:
        raise ValueError(f"a reward gap of {reward_gap} never moves the log-ratio from {start} to {end}")
    return 0.0 if start == end else float((end + np.sinh(end) - start - np.sinh(start)) / reward_gap)
