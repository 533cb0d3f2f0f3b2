"""The effect of a divergence from a reference policy: no outcome of the reference dies out.

The objective is penalised by beta KL(p || pi), pi the reference `[K]` over outcomes, p = softmax(z). At rest

    r_i w(p_i) - beta log(p_i / pi_i) = S for all i,

with w the weight of the reward: p^(-alpha) in the ideal flow, `expected_weight` in groups of G samples. The left side
falls from infinity as p_i grows, so there is exactly one such distribution; it is positive, and the maximum of the
potential minus beta KL. Derived, after arXiv 2601.21669, which describes the optimum only as one between p* and pi.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp, softmax, wrightomega

from ipsrl.arguments import checked
from ipsrl.dynamics.finite_groups import (
    Rule,
    checked_falling_weights,
    checked_rule,
    expected_weight,
    without_one_sample,
)
from ipsrl.dynamics.flows import checked_distribution, checked_outcomes


@checked
def divergence_velocity(logits: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """-d KL(p || pi)/dz `[K]`, to be added beta times to a flow or mean field: -p_i (log(p_i / pi_i) - KL(p || pi)).

    Raises:
      ValueError: the shapes differ, or the reference is not a distribution that is positive everywhere.
    """
    logits, reference = checked_outcomes(logits, _checked_reference(reference))
    probs, log_ratio = softmax(logits), log_softmax(logits) - np.log(reference)
    return -probs * (log_ratio - probs @ log_ratio)


@checked
def distribution_of_flow(rewards: np.ndarray, reference: np.ndarray, beta: float, alpha: float) -> np.ndarray:
    """The distribution `[K]` at which `flow_velocity` + beta `divergence_velocity` rests, from every interior start.

    alpha = 0 gives p_i proportional to pi_i e^(r_i / beta). Otherwise, with y = r_i alpha / beta p_i^(-alpha), the
    condition reads y + log y = alpha / beta (S - beta log pi_i) + log(r_i alpha / beta): Wright's omega function.

    Raises:
      ValueError: the shapes differ, beta is not positive, alpha or a reward is negative, or the reference is not a
        positive distribution.
    """
    rewards, reference = _checked(rewards, reference, beta)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    if alpha == 0:
        return softmax(np.log(reference) + rewards / beta)
    rewarded = rewards > 0
    # Outcomes without reward follow the reference; 1 replaces their reward inside logarithms.
    log_scale = np.log(np.where(rewarded, rewards, 1.0) * alpha / beta)

    def log_probs(level: float) -> np.ndarray:
        distance = level / beta - np.log(reference)
        scaled = (log_scale - np.log(wrightomega(alpha * distance + log_scale))) / alpha
        return np.where(rewarded, scaled, -distance)

    return _distribution_at_rest(
        log_probs, len(rewards), lambda probs: rewards * probs**-alpha - beta * np.log(probs / reference)
    )


@checked
def distribution_of_groups(
    rewards: np.ndarray, reference: np.ndarray, beta: float, weights: np.ndarray, rule: Rule
) -> np.ndarray:
    """The distribution `[K]` at which `mean_field` + beta `divergence_velocity` rests: no baseline, or group mean.

    If the minority of two would die without the divergence, it stays at about p_2 = pi_2 / pi_1 e^(-(r_1 omega(G) - r_2
    omega(1)) / beta) for small beta and no baseline.

    Raises:
      ValueError: the shapes differ, beta is not positive, a reward is negative, the reference is not a positive
        distribution, the weights are negative or rise with the count, or the rule divides by the std (it has no
        potential, and no such distribution is known).
        potential, and no such distribution is known.
    """
    rewards, reference = _checked(rewards, reference, beta)
    weights = checked_falling_weights(weights)
    if checked_rule(rule) == "group mean and std":
        raise ValueError(
            "distributions at rest are known without a baseline and for the group mean, not with the group's std"
        )
    if rule == "group mean":
        weights = without_one_sample(weights)

    def excess(log_probability: float, outcome: int, level: float) -> float:
        # Below e^-700 the binomial distribution overflows; the weight equals omega(1) long before.
        weighted_reward = rewards[outcome] * expected_weight(np.exp(max(log_probability, -700.0)), weights)
        return weighted_reward - beta * (log_probability - np.log(reference[outcome])) - level

    def log_probability(outcome: int, level: float) -> float:
        # At the lower end the divergence alone reaches the level.
        low, high = np.log(reference[outcome]) - level / beta, 0.0
        return high if excess(high, outcome, level) >= 0 else brentq(excess, low, high, args=(outcome, level))

    def log_probs(level: float) -> np.ndarray:
        return np.array([log_probability(outcome, level) for outcome in range(len(rewards))])

    return _distribution_at_rest(
        log_probs,
        len(rewards),
        lambda probs: rewards * expected_weight(probs, weights) - beta * np.log(probs / reference),
    )


def _distribution_at_rest(
    log_probs: Callable[[float], np.ndarray], num_outcomes: int, level_of: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """exp(log_probs(S)) `[K]` at the level S where it sums to 1; `level_of`, the inverse, maps it to levels `[K]`."""
    whole = np.ones(num_outcomes)

    def log_total(level: float) -> float:
        return logsumexp(log_probs(level))

    # At the lowest level one outcome alone takes everything, which after rounding may be less than 1; at the highest
    # none takes more than half its share.
    low, high = level_of(whole).max(), level_of(whole / (2 * num_outcomes)).max()
    level = low if log_total(low) <= 0 else brentq(log_total, low, high, rtol=1e-15, maxiter=1000)
    return softmax(log_probs(level))


def _checked(rewards: np.ndarray, reference: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    rewards, reference = checked_outcomes(rewards, _checked_reference(reference))
    if np.any(rewards < 0):
        raise ValueError(f"rewards must not be negative, but they are {rewards}")
    if not beta > 0:
        raise ValueError(f"beta is {beta}, it must be positive: for no divergence see flows and survival")
    return rewards, reference


def _checked_reference(reference: np.ndarray) -> np.ndarray:
    reference = checked_distribution(reference)
    if np.any(reference == 0):
        raise ValueError(f"the reference must be positive everywhere, but it is {reference}")
    return reference
