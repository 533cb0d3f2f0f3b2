"""The expected update of inverse probability scaling with probabilities from counts in a group of G samples.

Let n_i be the count of outcome i in the group, phat_i = n_i / G, and omega(n) the weight on the reward of an outcome
with count n. With Rt_i = r_i omega(n_i), mu = sum_k phat_k Rt_k and sigma the group's standard deviation of Rt, three
rules update the logits of p = softmax(z) (outcomes with count 0 contribute 0):

    no baseline            phat_i Rt_i - p_i mu
    group mean             phat_i (Rt_i - mu)
    group mean and std     phat_i (Rt_i - mu) / sigma     (GRPO)

This module gives the exact means of the three rules over groups, in float64. omega is any array `[G]` of weights of the
counts 1 .. G; `count_weights` makes those of inverse probability scaling by counts (arXiv 2601.21669).
"""

import itertools
import math
from typing import Literal

import numpy as np
import scipy
from scipy.special import gammaln, xlogy

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.softmax.flows import checked_distribution, checked_outcomes

Rule = Literal["no baseline", "group mean", "group mean and std"]

COUNT_RULES: dict[Rule, str] = {
    "no baseline": "ips_reinforce",
    "group mean": "ips_dr_grpo",
    "group mean and std": "ips_grpo",
}
"""The rules with the weights of `count_weights`, as rows of the catalog of objectives."""

LARGEST_GROUP = 10_000_000
"""Largest number of weights of counts."""
MOST_COUNT_VECTORS = 1_000_000
"""Maximum number of count vectors that `mean_field` enumerates: the size of one array for each outcome."""


@checked
def count_weights(group_size: int, alpha: float = 1.0, floor: float = 0.0, pseudo_count: float = 0.0) -> np.ndarray:
    """omega(n) = max((n + pseudo_count) / (G + pseudo_count), floor)^(-alpha) for n = 1 .. G: `[G]`.

    A floor of 1/G or less has no effect without a pseudo-count. A pseudo-count lambda > 0 (add-lambda) narrows the
    range omega(1) / omega(G) from G^alpha to ((G + lambda) / (1 + lambda))^alpha; one of (alpha - 1) / 2 removes the
    term of order 1/G from the deviation of `expected_weight` from p^(-alpha).

    Raises:
      ValueError: the group is empty or above `LARGEST_GROUP`, alpha or the floor is negative, or the pseudo-count is
        not above -1.
    """
    if not 1 <= group_size <= LARGEST_GROUP:
        raise ValueError(f"group_size is {group_size}, it must lie between 1 and {LARGEST_GROUP}")
    if not alpha >= 0 or not floor >= 0:
        raise ValueError(f"alpha ({alpha}) and floor ({floor}) must not be negative")
    if not pseudo_count > -1:
        raise ValueError(f"pseudo_count is {pseudo_count}, must be above -1: a count of 1 must stay positive")
    counts = np.arange(1, group_size + 1)
    return np.maximum((counts + pseudo_count) / (group_size + pseudo_count), floor) ** -alpha


@checked
def without_one_sample(weights: np.ndarray) -> np.ndarray:
    """Weights `[G - 1]` with which the rule without baseline has the mean field of the group mean: the price of a
    baseline.

        (G - 1)/G omega(n),   n = 1 .. G - 1

    Because E[phat_i (1 - phat_i) omega(n_i)] = (G - 1)/G p_i (1 - p_i) E[omega(1 + B)], B ~ Binomial(G - 2, p_i), and
    given n_k the other samples come from p without outcome k. For alpha = 1 and an inactive floor these are the count
    weights of a group of G - 1.

    Raises:
      ValueError: G < 2: one sample minus its own mean is zero.
    """
    weights = checked_weights(weights)
    if len(weights) < 2:
        raise ValueError(f"group_size is {len(weights)}, rules with a group mean need at least 2")
    return (1 - 1 / len(weights)) * weights[:-1]


@checked
def expected_weight(probability: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """w_G(p) = E[omega(1 + B)], B ~ Binomial(G - 1, p): the mean weight of a sample's outcome, for any shape of p.

    w_G(0) = omega(1) and w_G(1) = omega(G). For alpha = 1 and floor <= 1/G this is (1 - (1 - p)^G) / p, which is below
    1 / p because the outcome may be missing from the group.

    Raises:
      ValueError: a probability is not in [0, 1], or the weights are not `[G]` and finite.
    """
    weights, probability = checked_weights(weights), np.asarray(probability, np.float64)
    if not np.all((probability >= 0) & (probability <= 1)):
        raise ValueError(f"probability must lie between 0 and 1, but it is {probability}")
    return scipy.stats.binom.pmf(np.arange(len(weights)), len(weights) - 1, probability[..., None]) @ weights


@checked
def mean_field(probs: np.ndarray, rewards: np.ndarray, weights: np.ndarray, rule: Rule) -> np.ndarray:
    """Mean update `[K]` of a rule, over groups of G = len(weights) samples from `probs` `[K]`.

        no baseline            p_i (r_i w_G(p_i) - sum_k p_k r_k w_G(p_k))
        group mean             the same with the weights `without_one_sample`
        group mean and std     by enumeration of all count vectors; groups with equal Rt give 0

    For two outcomes the group mean and std give sqrt(phat_1 phat_2) sign(Rt_1 - Rt_2) in each group: the size of the
    rewards cancels.

    Raises:
      ValueError: `probs` and `rewards` are not both `[K]`, `probs` is not a distribution, the rule is unknown, the
        group has fewer than 2 samples where a group mean is subtracted, or there are too many count vectors to
        enumerate.
    """
    probs, rewards = checked_outcomes(checked_distribution(probs), rewards)
    weights = checked_weights(weights)
    counted = weights if rule == "no baseline" else without_one_sample(weights)
    if rule == "group mean and std":
        return _standardised_mean_field(probs, rewards, weights)
    weighted_rewards = probs * rewards * expected_weight(probs, counted)
    return weighted_rewards - probs * weighted_rewards.sum()


def _standardised_mean_field(probs: np.ndarray, rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    counts = count_vectors(len(probs), len(weights))
    shares = counts / len(weights)
    scaled = rewards * np.append(0.0, weights)[counts]
    deviation = scaled - np.sum(shares * scaled, axis=1, keepdims=True)
    std = np.sqrt(np.sum(shares * deviation**2, axis=1))
    # An exact tie, such as 4/(4/5) and 1/(1/5), must not become a full step by rounding.
    told_apart = std > 1e-12 * np.abs(scaled).max(axis=1)
    updates = np.divide(shares * deviation, std[:, None], out=np.zeros_like(shares), where=told_apart[:, None])
    log_ways = gammaln(len(weights) + 1) - gammaln(counts + 1).sum(axis=1)
    return np.exp(log_ways + xlogy(counts, probs).sum(axis=1)) @ updates


@checked
def count_vectors(num_outcomes: int, group_size: int) -> np.ndarray:
    """All ways to distribute G samples over K outcomes, `[C(G + K - 1, K - 1), K]`.

    Raises:
      ValueError: there are more than `MOST_COUNT_VECTORS`, or a number is negative.
    """
    if num_outcomes < 1 or group_size < 0:
        raise ValueError(f"num_outcomes is {num_outcomes} and group_size is {group_size}: both must be positive")
    number = math.comb(group_size + num_outcomes - 1, num_outcomes - 1)
    if number > MOST_COUNT_VECTORS:
        raise ValueError(f"{number} count vectors are too many to enumerate: use fewer outcomes or a smaller group")
    # Stars and bars: G samples in a row, and K - 1 bars between consecutive outcomes.
    places = group_size + num_outcomes - 1
    bars = np.array(list(itertools.combinations(range(places), num_outcomes - 1)), np.int64).reshape(number, -1)
    return np.diff(bars, axis=1, prepend=-1, append=places) - 1


def checked_weights(weights: np.ndarray) -> np.ndarray:
    """`weights` as a float64 array; raises ValueError unless it is `[G]` with G >= 1 and finite."""
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 1 or len(weights) == 0:
        raise ValueError(f"weights {weights.shape} must be [group_size]: one weight for each count from 1 to G")
    if not np.all(np.isfinite(weights)):
        raise ValueError(f"weights must be finite, but they are {weights}")
    return weights


def checked_falling_weights(weights: np.ndarray) -> np.ndarray:
    """`checked_weights`; raises ValueError if a weight is negative or above that of a smaller count."""
    weights = checked_weights(weights)
    if np.any(weights < 0) or np.any(np.diff(weights) > 0):
        raise ValueError("weights must not be negative and must not rise with the count")
    return weights
