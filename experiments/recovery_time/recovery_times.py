"""How fast the second of two outcomes recovers while it is rare, in groups of G samples and in the limit of many.

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
    mean_field,
    without_one_sample,
)
from ipsrl.dynamics.softmax.flows import flow_velocity


@checked
def recovery_time(
    start: float,
    end: float,
    rewards: tuple[float, float],
    weights: np.ndarray,
    rule: Rule = "no baseline",
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
def recovery_coefficient(
    rewards: tuple[float, float], weights: np.ndarray, rule: Rule = "no baseline"
) -> float:
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
def ideal_recovery_time(
    start: float, end: float, rewards: tuple[float, float], alpha: float = 1.0
) -> float:
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


def _rise_time(growth: Callable[[float], float], start: float, end: float) -> float:
    """Integral of dx / growth(x) over x = ln p; growth = d ln p/dt changes sign at most once, to negative."""
    if not growth(math.log(end)) > 0:
        raise ValueError(f"the second outcome does not recover to {end}: it does not grow there")
    return quad(
        lambda x: 1 / growth(x), math.log(start), math.log(end), epsabs=0.0, epsrel=1e-10, limit=200
    )[0]


def _check_rise(start: float, end: float) -> None:
    if not 0 < start <= end < 1:
        raise ValueError(
            f"the outcome must rise from start > 0 to end < 1, not from {start} to {end}"
        )
