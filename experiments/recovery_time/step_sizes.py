"""Limits of the step size: near the rest point of a flow, and where few samples and large steps kill an outcome.

Time is (number of updates) x (step size h). Setting: arXiv 2601.21669; the limits are derived.
"""

import math
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

from ipsrl.arguments import checked
from ipsrl.dynamics.finite_groups import checked_weights, count_weights
from ipsrl.dynamics.flows import stationary_distribution

# x = h lambda > 0 above which an explicit step no longer shrinks a deviation with decay rate lambda: Euler's multiplies
# it by 1 - x, the fourth-order Runge-Kutta method by 1 - x + x^2/2 - x^3/6 + x^4/24.
STABILITY_LIMIT = {
    "euler": 2.0,
    "runge-kutta": brentq(lambda x: x**3 - 4 * x**2 + 12 * x - 24, 2.0, 3.0),
}


@checked
def jacobian_at_rest(rewards: np.ndarray, alpha: float) -> np.ndarray:
    """Jacobian `[K, K]` of `flows.flow_velocity` with respect to the logits at its stationary distribution p*.

        -alpha |r| (diag p* - p* p*^T),   |r| = (sum_k r_k^(1 / alpha))^alpha

    Raises:
      ValueError: alpha or a reward is not positive.
    """
    rewards = np.asarray(rewards, np.float64)
    if rewards.ndim != 1 or not np.all(rewards > 0):
        raise ValueError(
            f"rewards must be [outcome] and positive for a rest point inside the simplex, not {rewards}"
        )
    probs = stationary_distribution(rewards, alpha)
    norm = rewards.max() * np.sum((rewards / rewards.max()) ** (1 / alpha)) ** alpha
    return -alpha * norm * (np.diag(probs) - np.outer(probs, probs))


@checked
def rates_at_rest(rewards: np.ndarray, alpha: float) -> np.ndarray:
    """Rates `[K - 1]` per unit of time, ascending, at which small deviations from the stationary distribution decay.

    The eigenvalues of -`jacobian_at_rest` except the 0 of a common shift of the logits. A tie of all K outcomes has one
    rate, alpha r K^(alpha - 1).

    Raises:
      ValueError: alpha or a reward is not positive.
    """
    return np.linalg.eigvalsh(-jacobian_at_rest(rewards, alpha))[1:]


@checked
def largest_step(
    rewards: np.ndarray, alpha: float, method: Literal["euler", "runge-kutta"] = "euler"
) -> float:
    """The step size below which explicit steps of the flow converge from near its stationary distribution.

        2 / (fastest rate) for Euler's method,     2.7853 / (fastest rate) for the fourth-order Runge-Kutta method

    Local only: for alpha > 1 the flow is arbitrarily stiff near the boundary of the simplex, where a step that is
    stable at rest overshoots.

    Raises:
      ValueError: alpha or a reward is not positive, there is only one outcome, or the method is unknown.
    """
    if method not in STABILITY_LIMIT:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(STABILITY_LIMIT)}")
    if np.size(rewards) < 2:
        raise ValueError("a single outcome does not move: there must be at least two")
    return float(STABILITY_LIMIT[method] / rates_at_rest(rewards, alpha)[-1])


@checked
def largest_surviving_step(rewards: tuple[float, float], weights: np.ndarray) -> float:
    """The step size below which the second of two outcomes survives training without a baseline, in groups of G.

        G (1 - e^(-2 h r_2 omega(1) / G)) > 2 h r_1 omega(G)

    The condition says that 1 / p_2 falls on average when p_2 is small: a group without the outcome multiplies it by
    e^(2 h r_1 omega(G) p_2), and a group with one sample of it (probability G p_2) by e^(-2 h r_2 omega(1) / G). As h
    -> 0 this is r_2 omega(1) > r_1 omega(G), the limit of `survival`, which a finite step changes by a share of about h
    r_2 omega(1) / G. With x = r_2 omega(1) / (r_1 omega(G)) and Lambert's W,

        h = G / (2 r_2 omega(1)) (x + W(-x e^(-x)))

    Returns:
      0.0 if the outcome dies out at every step size.

    Raises:
      ValueError: a reward or a weight is not positive.
    """
    (first, second), weights = rewards, checked_weights(weights)
    if not min(first, second) > 0 or not np.all(weights > 0):
        raise ValueError(f"rewards {rewards} and weights must be positive")
    advantage = second * weights[0] / (first * weights[-1])
    if advantage <= 1:
        return 0.0
    root = advantage + lambertw(-advantage * math.exp(-advantage)).real
    return float(len(weights) / (2 * second * weights[0]) * root)


@checked
def critical_alpha_of_step(
    rewards: tuple[float, float], group_size: int, step_size: float, floor: float = 0.0
) -> float:
    """The exponent above which the second of two outcomes survives steps of size h without a baseline, r_1 >= r_2.

    From the criterion of `largest_surviving_step` with count weights, for which omega(G) = 1:

        omega(1) = min(G, 1/floor)^alpha > -G / (2 h r_2) ln(1 - 2 h r_1 / G)

    It tends to `survival.critical_alpha` as h -> 0. math.inf if no alpha saves the outcome: 2 h r_1 >= G, or all counts
    have the same weight.

    Raises:
      ValueError: the group is empty, the step size or the weaker reward is not positive, the second outcome is the
        better one, or the floor is negative.
    """
    first, second = rewards
    if not first >= second > 0 or not step_size > 0:
        raise ValueError(
            f"rewards {rewards} must be positive with the better one first, and step_size {step_size} too"
        )
    reach = count_weights(group_size, 1.0, floor)
    reach = reach[0] / reach[-1]
    fall = 2 * step_size * first / group_size
    if reach <= 1 or fall >= 1:
        return math.inf
    return math.log(-group_size / (2 * step_size * second) * math.log1p(-fall)) / math.log(reach)
