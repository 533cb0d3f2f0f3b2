"""Continuous-time training of a softmax over outcomes, in float64: the limit of many samples and small steps.

A policy chooses one of K outcomes with p = softmax(z); outcome i has reward r_i. Time is (number of updates) x (step
size). Sources: arXiv 2601.21669 (expected return and inverse probability scaling); the exponent alpha generalises both.
The potentials of the flows are in `potentials`, their rates of convergence in `step_sizes`.
"""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import newton
from scipy.special import log_softmax, softmax

from ipsrl.arguments import checked, shown

LARGEST_LOG_RATIO = 700.0
"""Largest log-ratio of two probabilities, in either direction, of which float64 holds the exponential."""

LATEST = 1e12
"""Last time to which flows are integrated: later, 1 - p of an outcome that has won is lost in rounding."""


@checked
def flow_velocity(logits: np.ndarray, rewards: np.ndarray, alpha: float) -> np.ndarray:
    """dz/dt `[K]` if every reward is divided by the (gradient-stopped) probability of its outcome to the power alpha.

        dz_i/dt = r_i p_i^(1 - alpha) - p_i sum_k r_k p_k^(1 - alpha)

    alpha = 0 is expected return, dz_i/dt = p_i (r_i - mean reward); alpha = 1 is inverse probability scaling,
    dz_i/dt = r_i - p_i sum_k r_k.

    Raises:
      ValueError: the shapes differ, or alpha is negative.
    """
    logits, rewards = checked_outcomes(logits, rewards)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    weighted_rewards = rewards * np.exp((1.0 - alpha) * log_softmax(logits))
    return weighted_rewards - softmax(logits) * weighted_rewards.sum()


@checked
def natural_velocity(logits: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """dz/dt `[K]` of the natural gradient of expected return (Hedge, the replicator equation).

        dz_i/dt = r_i - mean reward,    d log(p_i / p_j)/dt = r_i - r_j,    dp_i/dt = p_i (r_i - mean reward)

    Log-ratios are linear in time here, while `flow_velocity` multiplies each advantage by the probability of its
    outcome. Ties keep their ratio.

    Raises:
      ValueError: the shapes differ.
    """
    logits, rewards = checked_outcomes(logits, rewards)
    return rewards - softmax(logits) @ rewards


@checked
def entropy_velocity(logits: np.ndarray, velocity: np.ndarray) -> float:
    """dH/dt of the policy's entropy in nats if its logits `[K]` move with dz/dt = `velocity` `[K]`.

        dH/dt = -Cov_p(log p, dz/dt)

    Exact for a flow, and to first order the entropy change of a step dz (arXiv 2505.22617): probable outcomes that
    rise, and improbable ones that fall, lower the entropy. Valid for any velocity, whatever its origin.

    Raises:
      ValueError: the shapes differ.
    """
    logits, velocity = checked_outcomes(logits, velocity)
    probs, log_probs = softmax(logits), log_softmax(logits)
    return float(-probs @ ((log_probs - probs @ log_probs) * velocity))


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


@checked
def stationary_distribution(rewards: np.ndarray, alpha: float) -> np.ndarray:
    """The distribution `[K]` at which `flow_velocity` rests, r^(1 / alpha) / sum: its limit from every interior start.

    Outcomes without reward get 0, which the flow reaches only as time goes to infinity.

    Raises:
      ValueError: alpha is not positive (expected return has no such distribution: its limit depends on the start), the
        rewards are not `[K]`, one is negative, or none is positive.
    """
    rewards = np.asarray(rewards, np.float64)
    if not alpha > 0:
        raise ValueError(
            f"alpha is {alpha}, but only a positive alpha has a stationary distribution independent of the start"
        )
    if rewards.ndim != 1 or not np.all(rewards >= 0) or not np.any(rewards > 0):
        raise ValueError(
            f"rewards must be [outcome] and not negative, and at least one must be positive, but they are {rewards}"
        )
    # Divided by the largest reward first, so that a small alpha does not overflow.
    scaled = (rewards / rewards.max()) ** (1.0 / alpha)
    return scaled / scaled.sum()


@checked
def two_outcome_log_ratio(times: np.ndarray, start: float, reward_gap: float) -> np.ndarray:
    """Log-ratio u = ln(p_1 / p_2) at `times` under the flow of expected return with two outcomes, exactly.

    du/dt = Delta / (1 + cosh u), with Delta = r_1 - r_2 the reward gap, so u + sinh u = Delta t + constant. Early the
    ratio moves linearly, late p_2 falls as 1 / (2 Delta t). With a gap of 0, u is constant.

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


@checked
def two_outcome_time(start: float, end: float, reward_gap: float) -> float:
    """Time that expected return with two outcomes takes to move ln(p_1 / p_2) from `start` to `end`.

        t = (end + sinh end - start - sinh start) / Delta

    Raises:
      ValueError: the flow never reaches `end`, because the gap is 0 or has the other sign, or a log-ratio is too large.
    """
    if reward_gap * (end - start) <= 0 and start != end:
        raise ValueError(f"a reward gap of {reward_gap} never moves the log-ratio from {start} to {end}")
    if max(abs(start), abs(end)) > LARGEST_LOG_RATIO:
        raise ValueError(f"start is {start} and end is {end}, but both must be within {LARGEST_LOG_RATIO} of 0")
    return 0.0 if start == end else float((end + np.sinh(end) - start - np.sinh(start)) / reward_gap)


@checked
def partial_tie_ratio(times: np.ndarray, probs: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Late p_2 / p_1 at `times`, under the flow of expected return, of the two best outcomes, which tie.

    Index 1 is the more likely of the two at time 0, when the policy is `probs` `[K]`; L = K - 2 outcomes are worse, by
    the gaps delta_j > 0. Every e^(-z) moves at the rate (mean reward - r) / Z, Z = sum_k e^(z_k), so c = e^(-z_2) -
    e^(-z_1) is constant; the sum of the logits, s, is constant too. From both, as t -> infinity,

        p_2 / p_1 -> 1 / (c A T^L),   A = c e^s prod_j delta_j,   T = ((L + 1) t / A)^(1 / (L + 1))

    So a tie breaks as t^(-L / (L + 1)): as t^(-1/2) with one worse outcome, faster with more, and not at all with none.

    Args:
      times: any shape, positive and late: the resulting ratio must be small.

    Raises:
      ValueError: not exactly two outcomes are best, none is worse, or the best ones are equally likely (then they stay
        so).
    """
    probs, rewards = checked_outcomes(checked_distribution(probs), rewards)
    best = rewards == rewards.max()
    if best.sum() != 2 or len(probs) < 3:
        raise ValueError(f"two outcomes must be best and another worse, but the rewards are {rewards}")
    second, first = np.sort(probs[best])
    if not 0 < second < first or np.any(probs == 0):
        raise ValueError(
            f"the tied outcomes must differ in probability and all must be positive, but the distribution is {probs}"
        )
    if not np.all(times > 0):
        raise ValueError(f"times is {shown(times)}, but the law holds for late times, all positive")
    worse = rewards.max() - rewards[~best]
    separation = 1 / second - 1 / first
    scale = separation * probs.prod() * worse.prod()
    clock = ((len(worse) + 1) * np.asarray(times, np.float64) / scale) ** (1 / (len(worse) + 1))
    return 1 / (separation * scale * clock ** len(worse))


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
