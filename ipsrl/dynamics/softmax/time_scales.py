"""Time scales of training a softmax over outcomes: losing a tie to noise, recovering rare outcomes, evening out.

The rules and the weights omega `[G]` are those of `finite_groups`. One update moves the logits by the step size h times
the rule's update; time is (number of updates) x h. Setting: arXiv 2601.21669; the formulas are derived.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.softmax.finite_groups import (
    Rule,
    checked_falling_weights,
    checked_weights,
    expected_weight_slope,
    mean_field,
    without_one_sample,
)
from ipsrl.dynamics.softmax.flows import flow_velocity


@checked
def tie_collapse_time(group_size: int, step_size: float, reward: float = 1.0, threshold: float = 0.98) -> float:
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
        raise ValueError(f"threshold is {threshold}, it must lie between 1/2, where a tie starts, and 1")
    exit_ratio = math.log(threshold / (1 - threshold))
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        updates = group_size / np.float64(step_size * reward) ** 2
        return float(updates * (exit_ratio**2 / 2 + math.cosh(exit_ratio) - 1))


@checked
def recovery_time(
    start: float, end: float, rewards: tuple[float, float], weights: np.ndarray, rule: Rule = "no baseline"
) -> float:
    """Time (updates x h) in which the second of two outcomes rises from probability `start` to `end` in the mean field.

        integral of dp / (2 p (1 - p) m_2(p)),   m = `finite_groups.mean_field`

    From a small start it is close to 1 / (c start), c the `recovery_coefficient`: a finite group rarely contains a rare
    outcome, and recovery is hyperbolic.

    Raises:
      ValueError: not 0 < start <= end < 1, the weights are negative or rise with the count, or the outcome does not
        recover that far.
    """
    _check_rise(start, end)
    weights = checked_falling_weights(weights)

    def growth(log_probability: float) -> float:
        p = math.exp(log_probability)
        return 2 * (1 - p) * mean_field(np.array([1 - p, p]), np.asarray(rewards), weights, rule)[1]

    return _rise_time(growth, start, end)


@checked
def recovery_coefficient(rewards: tuple[float, float], weights: np.ndarray, rule: Rule = "no baseline") -> float:
    """c of dp_2/dt = c p_2^2, the growth of the second of two outcomes while it is rare; it dies out if c <= 0.

        no baseline           2 (r_2 omega(1) - r_1 omega(G))
        group mean            2 (G - 1)/G (r_2 omega(1) - r_1 omega(G - 1))
        group mean and std    2 sqrt(G - 1) sign(r_2 omega(1) - r_1 omega(G - 1))

    Raises:
      ValueError: the rule is unknown, or the group has fewer than 2 samples where a group mean is subtracted.
    """
    (first, second), weights = rewards, checked_weights(weights)
    counted = weights if rule == "no baseline" else without_one_sample(weights)
    gained, lost = second * counted[0], first * counted[-1]
    if rule != "group mean and std":
        return float(2 * (gained - lost))
    tie = math.isclose(gained, lost, rel_tol=1e-12)
    return 0.0 if tie else math.copysign(2 * math.sqrt(len(weights) - 1), gained - lost)


@checked
def ideal_recovery_time(start: float, end: float, rewards: tuple[float, float], alpha: float = 1.0) -> float:
    """`recovery_time` with infinitely many samples: in the flow of `flows.flow_velocity`.

    For alpha = 1 it grows only with ln(1 / start); for alpha < 1 with start^(alpha - 1), and for alpha > 1 not at all.

    Raises:
      ValueError: not 0 < start <= end < 1, alpha is negative, or the outcome does not recover that far.
    """
    _check_rise(start, end)

    def growth(log_probability: float) -> float:
        p = math.exp(log_probability)
        first, second = flow_velocity(np.log([1 - p, p]), np.asarray(rewards), alpha)
        return (1 - p) * (second - first)

    return _rise_time(growth, start, end)


@checked
def restoring_rate(num_outcomes: int, weights: np.ndarray, reward: float = 1.0) -> float:
    """Rate per unit of time at which a tie of K outcomes returns to the uniform policy in the mean field, no baseline.

        lambda_G = -r w_G'(1 / K) / K^2

    0 for weights that do not fall with the count. For a group mean use `finite_groups.without_one_sample`.

    Raises:
      ValueError: there are fewer than two outcomes, the reward is not positive, or the weights are not `[G]`.
    """
    _check_tie(num_outcomes, reward)
    return float(-reward * expected_weight_slope(np.array(1 / num_outcomes), weights) / num_outcomes**2)


@checked
def ideal_restoring_rate(num_outcomes: int, alpha: float, reward: float = 1.0) -> float:
    """`restoring_rate` with infinitely many samples: lambda = alpha r K^(alpha - 1).

    Raises:
      ValueError: there are fewer than two outcomes, the reward is not positive, or alpha is negative.
    """
    _check_tie(num_outcomes, reward)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    return alpha * reward * num_outcomes ** (alpha - 1.0)


def _rise_time(growth: Callable[[float], float], start: float, end: float) -> float:
    """Integral of dx / growth(x) over x = ln p; growth = d ln p/dt changes sign at most once, to negative."""
    if not growth(math.log(end)) > 0:
        raise ValueError(f"the second outcome does not recover to {end}: it does not grow there")
    return quad(lambda x: 1 / growth(x), math.log(start), math.log(end), epsabs=0.0, epsrel=1e-10, limit=200)[0]


def _check_rise(start: float, end: float) -> None:
    if not 0 < start <= end < 1:
        raise ValueError(f"the outcome must rise from start > 0 to end < 1, not from {start} to {end}")


def _check_tie(num_outcomes: int, reward: float) -> None:
    if num_outcomes < 2:
        raise ValueError(f"num_outcomes is {num_outcomes}, a tie has at least 2")
    if not reward > 0:
        raise ValueError(f"reward is {reward}, it must be positive")
