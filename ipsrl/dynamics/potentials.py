"""Potentials: functions whose gradient with respect to the logits is the velocity of a flow or mean field.

Along dz/dt = grad F(z) a potential F never falls, dF/dt = |dz/dt|^2: a test of convergence that always holds. The
distance to the stationary distribution is not one: KL(p* || p) is monotone only for alpha = 1 or two outcomes.
"""

import numpy as np
import scipy
from scipy.special import log_softmax, logsumexp, softmax

from ipsrl.arguments import checked
from ipsrl.dynamics.finite_groups import checked_weights
from ipsrl.dynamics.flows import checked_outcomes, stationary_distribution


@checked
def flow_potential(logits: np.ndarray, rewards: np.ndarray, alpha: float) -> float:
    """F_alpha(z), whose gradient is `flows.flow_velocity`; logits and rewards `[K]`.

        F_alpha = sum_k r_k p_k^(1 - alpha) / (1 - alpha)    for alpha != 1,        F_1 = sum_k r_k log p_k

    For alpha > 0 and positive rewards it is strictly concave in p, with its maximum at `flows.stationary_distribution`.

    Raises:
      ValueError: the shapes differ, or alpha is negative.
    """
    logits, rewards = checked_outcomes(logits, rewards)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    log_probs = log_softmax(logits)
    if alpha == 1:
        return float(rewards @ log_probs)
    return float(rewards @ np.exp((1 - alpha) * log_probs) / (1 - alpha))


@checked
def cross_entropy_to_rewards(logits: np.ndarray, rewards: np.ndarray) -> float:
    """Psi(z) = log sum_k e^(z_k) - sum_k p*_k z_k with p* = r / sum r: the Lyapunov function of arXiv 2601.21669.

    It is the cross-entropy H(p*, p), that is -F_1 / sum r: inverse probability scaling (alpha = 1) is gradient descent
    on (sum r) KL(p* || p). It never rises along that flow; for other alpha see `flow_potential`.

    Raises:
      ValueError: the shapes differ, a reward is negative, or no reward is positive.
    """
    logits, rewards = checked_outcomes(logits, rewards)
    return float(logsumexp(logits) - stationary_distribution(rewards, alpha=1.0) @ logits)


@checked
def group_potential(logits: np.ndarray, rewards: np.ndarray, weights: np.ndarray) -> float:
    """F_G(z), whose gradient is `finite_groups.mean_field` without a baseline, for any weights omega `[G]`.

        F_G = (1/G) sum_i r_i E[omega(1) + ... + omega(n_i)],   n_i ~ Binomial(G, p_i)

    For alpha = 1 and an inactive floor, sum_i r_i E[1 + 1/2 + ... + 1/n_i]. The group mean climbs the same function
    with the weights `finite_groups.without_one_sample`; with division by a group's std there is no potential.

    Raises:
      ValueError: logits and rewards are not both `[K]`, or the weights are not `[G]`.
    """
    logits, rewards = checked_outcomes(logits, rewards)
    weights = checked_weights(weights)
    # E[omega(1) + ... + omega(n)] = sum over k of omega(k) P(n >= k).
    at_least = scipy.stats.binom.sf(np.arange(len(weights)), len(weights), softmax(logits)[:, None])
    return float(rewards @ at_least @ weights / len(weights))
