"""The outcomes that survive inverse probability scaling by counts in groups of G samples, and where it rests.

A finite group caps the weight of a rare outcome at omega(1), so its push near extinction is finite: it survives if that
push exceeds the push on the survivors. The rules and the weights omega `[G]` are those of `finite_groups`.

This module assumes mean fields, that is small steps, positive rewards, and weights
that never rise with the count and fall somewhere. Then r_i w_G(p_i) falls in p_i, and the rule without a baseline rests
at the distribution with

    r_i w_G(p_i) = S  for survivors,     r_i w_G(0) <= S  for the extinct,     sum_i p_i = 1.

The group mean is the same with the weights `finite_groups.without_one_sample`. Setting: arXiv 2601.21669; limits and
distributions are derived.
"""

import math

import numpy as np
from scipy.optimize import brentq

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.softmax.finite_groups import (
    Rule,
    checked_falling_weights,
    count_weights,
    expected_weight,
    mean_field,
    without_one_sample,
)


@checked
def stationary_distribution(rewards: np.ndarray, weights: np.ndarray, rule: Rule) -> np.ndarray:
    """The distribution `[K]` at which the `mean_field` of a rule rests: its limit from every start inside the simplex.

    For the group mean and std, whose mean field is not a gradient, only two outcomes: the minority's push changes sign
    once, because it is positive in groups with few of it and negative in groups with many.

    Raises:
      ValueError: a condition of this module does not hold, the group is too small for the rule to save anything (fewer
        than 2 samples, or 3 with a group mean), or the rule divides by the std and there are more than two outcomes.
    """
    rewards, counted = _checked(rewards, weights, rule)
    if rule == "group mean and std":
        return _standardised_distribution(rewards, np.asarray(weights, np.float64))

    def probs(level: float) -> np.ndarray:
        return np.array([_probability(level / reward, counted) for reward in rewards])

    # At the lowest level the best outcome takes everything (also after rounding), at the highest nothing is left.
    low, high = rewards.max() * counted[-1] * (1 - 1e-12), rewards.max() * counted[0]
    level = brentq(lambda level: probs(level).sum() - 1, low, high, xtol=1e-300, rtol=1e-15)
    # If a floor makes the weights of small counts equal, rounding hides the fall of w_G: the distribution jumps at that
    # level.
    below, above = probs(level * (1 - 1e-14)), probs(level * (1 + 1e-14))
    share = np.interp(1.0, [above.sum(), below.sum()], [0.0, 1.0])
    found = np.where(survives(rewards, weights, rule), share * below + (1 - share) * above, 0.0)
    return found / found.sum()


@checked
def survives(rewards: np.ndarray, weights: np.ndarray, rule: Rule) -> np.ndarray:
    """The outcomes that have a positive probability at rest, `[K]` bool.

    Outcome j survives if the better outcomes alone take less than everything at the level of its highest push: sum over
    r_i > r_j of w_G^(-1)(r_j omega(1) / r_i) < 1. For two outcomes that is omega(1) / omega(G) > r_1 / r_2 without a
    baseline and omega(1) / omega(G - 1) > r_1 / r_2 with a group mean, with or without the std.

    Raises:
      ValueError: as in `stationary_distribution`.
    """
    rewards, counted = _checked(rewards, weights, rule)
    return np.array([_crowd(reward, rewards, counted) < 1 for reward in rewards])


@checked
def critical_alpha(reward_ratio: float, group_size: int, rule: Rule, floor: float = 0.0) -> float:
    """The exponent above which the weaker of two outcomes survives, for count weights and rho = r_1 / r_2 >= 1.

        no baseline                               omega(1) / omega(G) > rho:       alpha > ln rho / ln min(G, 1/floor)
        group mean, and group mean and std        omega(1) / omega(G - 1) > rho:   alpha > ln rho / ln(G - 1)

    (the second for floor <= 1/G). 0.0 for equal rewards: a tie survives at every alpha > 0. math.inf if no alpha saves
    it because all counts have the same weight; with a group mean this is always so for G = 2, where groups are balanced
    or without signal.

    Raises:
      ValueError: rho < 1, the rule is unknown, the floor is negative, or the group is smaller than the rule allows: 1
        without a baseline, otherwise 2.
    """
    _check_ratio(reward_ratio)
    weights = count_weights(group_size, 1.0, floor)
    counted = weights if rule == "no baseline" else without_one_sample(weights)
    reach = counted[-1] / counted[0]
    return math.log(reward_ratio) / -math.log(reach) if reach < 1 else math.inf


@checked
def weaker_at_rest(
    rewards: tuple[float, float], group_size: int, rule: Rule, alpha: float, floor: float = 0.0
) -> float:
    """Probability of the weaker of two outcomes, r_1 > r_2, where the mean field rests with count weights.

    0.0 if it dies out: at `critical_alpha` and below.

    Raises:
      ValueError: as in `critical_alpha` and `stationary_distribution`.
    """
    better, worse = rewards
    if not better > worse > 0:
        raise ValueError(f"rewards is {rewards}, but both must be positive, the better one first")
    if alpha <= critical_alpha(better / worse, group_size, rule, floor):
        return 0.0
    return float(stationary_distribution(np.array(rewards), count_weights(group_size, alpha, floor), rule)[1])


@checked
def smallest_group(reward_ratio: float, rule: Rule, alpha: float = 1.0, floor: float = 0.0) -> float:
    """The smallest group size in which the weaker of two outcomes survives with count weights, rho = r_1 / r_2 >= 1.

    With x = rho^(1 / alpha) it is the first whole number above x without a baseline, above both 1 + x and 1 / (1 -
    floor x) with a group mean, with or without the std; bounds are known to a relative 1e-12, and a group exactly at
    its bound is too small. math.inf if no group is large enough, because the floor caps the weight at 1/floor^alpha <=
    rho, and if its size is beyond float64.

    Raises:
      ValueError: rho < 1, alpha is not positive, the rule is unknown, or the floor is negative.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}, it must be positive: at 0 no group size and no rule helps")
    _check_ratio(reward_ratio)
    if not floor >= 0:
        raise ValueError(f"floor is {floor}, it must not be negative")
    with np.errstate(over="ignore"):
        bound = float(np.exp(np.float64(math.log(reward_ratio)) / alpha))
    # Rounding must not accept a group exactly at its bound.
    rounding = 1e-12
    room = 1 - floor * bound if floor > 0 else 1.0
    if rule != "no baseline" and room > rounding:
        bound = max(1 + bound, 1 / room)
    bound *= 1 + rounding
    return math.inf if room <= rounding or bound == math.inf else math.floor(bound) + 1


def _check_ratio(reward_ratio: float) -> None:
    if not reward_ratio >= 1:
        raise ValueError(f"reward_ratio is {reward_ratio}, but it is the better reward over the worse, at least 1")


def _checked(rewards: np.ndarray, weights: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Rewards `[K]`, and the weights that decide survival: `[G]`, or `[G - 1]` with a group mean."""
    rewards, weights = np.asarray(rewards, np.float64), checked_falling_weights(weights)
    if rewards.ndim != 1 or len(rewards) == 0 or not np.all(rewards > 0):
        raise ValueError(f"rewards must be [outcome] and positive, but they are {rewards}")
    if rule == "group mean and std" and len(rewards) != 2:
        raise ValueError(f"with the group's std, survival is known only for two outcomes, not for {len(rewards)}")
    counted = weights if rule == "no baseline" else without_one_sample(weights)
    if counted[0] == counted[-1]:
        raise ValueError(
            f"counts from 1 to {len(counted)} all weigh the same, so nothing favours rare outcomes: use a "
            "positive alpha and groups of at least 2, or 3 with a group mean"
        )
    return rewards, counted


def _probability(weight: float, weights: np.ndarray) -> float:
    """p with w_G(p) = weight; 0 for weights above omega(1), 1 for those below omega(G)."""
    if weight >= weights[0]:
        return 0.0
    if weight <= weights[-1]:
        return 1.0
    return brentq(lambda p: expected_weight(p, weights) - weight, 0.0, 1.0, xtol=1e-300, rtol=1e-15)


def _crowd(reward: float, rewards: np.ndarray, weights: np.ndarray) -> float:
    """Probability taken by outcomes with more than `reward` at the level of its highest push; 1 or more leaves none."""
    return sum(_probability(reward * weights[0] / better, weights) for better in rewards[rewards > reward])


def _standardised_distribution(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    rule: Rule = "group mean and std"
    weaker = int(np.argmin(rewards))

    def probs(probability: float) -> np.ndarray:
        return np.where(np.arange(2) == weaker, probability, 1 - probability)

    if not survives(rewards, weights, rule)[weaker]:
        return probs(0.0)
    edge = 1e-9  # At the edges themselves nothing moves. The rest point of a survivor is at least of order 1 / G^2.
    return probs(brentq(lambda p: mean_field(probs(p), rewards, weights, rule)[weaker], edge, 1 - edge, rtol=1e-15))
