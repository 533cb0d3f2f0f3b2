"""The expected update of inverse probability scaling when the probability is a count in a group of G samples.

Let n_i be how often outcome i occurs in the group, phat_i = n_i / G, and omega(n) = max(n / G, floor)^(-alpha) the
weight that its reward gets. With Rt_i = r_i omega(n_i), mu = sum_k phat_k Rt_k and sigma the group's standard deviation
of Rt, three rules update the logits of p = softmax(z) (an outcome that does not occur contributes 0):

    no baseline            phat_i Rt_i - p_i mu
    group mean             phat_i (Rt_i - mu)
    group mean and std     phat_i (Rt_i - mu) / sigma     (GRPO)

Each function below is the exact mean of one rule over groups, in float64. Scaling by counts follows arXiv 2601.21669.
"""

import numpy as np
from scipy.stats import binom


def count_weight(counts: np.ndarray, group_size: int, alpha: float = 1.0, floor: float = 0.0) -> np.ndarray:
    """omega(n) = max(n / G, floor)^(-alpha), for counts n >= 1; a floor of 1/G or less never acts.

    Raises:
      ValueError: a count is outside [1, G], or alpha or the floor is negative.
    """
    counts = np.asarray(counts)
    if np.any(counts < 1) or np.any(counts > group_size):
        raise ValueError(f"counts must lie in [1, {group_size}]: an outcome that does not occur has no weight")
    if alpha < 0 or floor < 0:
        raise ValueError(f"alpha ({alpha}) and floor ({floor}) must not be negative")
    return np.maximum(counts / group_size, floor) ** -alpha


def expected_weight(probability: np.ndarray, group_size: int, alpha: float = 1.0, floor: float = 0.0) -> np.ndarray:
    """w_G(p) = E[omega(1 + B)], B ~ Binomial(G - 1, p): the mean weight of a sample's outcome, for any shape of p.

    For alpha = 1 and floor <= 1/G this is (1 - (1 - p)^G) / p, which falls short of 1 / p by the chance that the
    outcome is missing from the group.
    """
    return _expected_weight(probability, group_size - 1, group_size, alpha, floor)


def mean_field_no_baseline(
    law: np.ndarray, rewards: np.ndarray, group_size: int, alpha: float = 1.0, floor: float = 0.0
) -> np.ndarray:
    """Mean update `[K]` of the rule without a baseline: p_i (r_i w_G(p_i) - sum_k p_k r_k w_G(p_k)).

    Raises:
      ValueError: `law` and `rewards` are not both `[K]`, `law` is no distribution, or G < 1.
    """
    law, rewards = _outcomes(law, rewards, group_size, smallest_group=1)
    pushes = law * rewards * expected_weight(law, group_size, alpha, floor)
    return pushes - law * pushes.sum()


def mean_field_group_mean(
    law: np.ndarray, rewards: np.ndarray, group_size: int, alpha: float = 1.0, floor: float = 0.0
) -> np.ndarray:
    """Mean update `[K]` of the rule that subtracts the group's mean.

    E[phat_i (Rt_i - mu)] is the field of the rule without a baseline with one sample fewer in the expected weight:

        (G - 1)/G p_i (r_i v(p_i) - sum_k p_k r_k v(p_k)),   v(p) = E[omega(1 + B)], B ~ Binomial(G - 2, p)

    because E[phat_i (1 - phat_i) omega(n_i)] = (G - 1)/G p_i (1 - p_i) v(p_i), and given n_k the other samples are
    drawn from p without outcome k.

    Raises:
      ValueError: `law` and `rewards` are not both `[K]`, `law` is no distribution, or G < 2.
    """
    law, rewards = _outcomes(law, rewards, group_size, smallest_group=2)
    weight = _expected_weight(law, group_size - 2, group_size, alpha, floor)
    pushes = (group_size - 1) / group_size * law * rewards * weight
    return pushes - law * pushes.sum()


def mean_field_group_mean_and_std(
    law: np.ndarray, rewards: np.ndarray, group_size: int, alpha: float = 1.0, floor: float = 0.0
) -> np.ndarray:
    """Mean update `[2]` of the rule that subtracts the group's mean and divides by its standard deviation, K = 2.

    For two outcomes the update of outcome 1 in a group is sqrt(phat_1 phat_2) sign(Rt_1 - Rt_2): how large the rewards
    are drops out, and groups whose scaled rewards all agree give 0. The mean enumerates the counts 1 .. G-1.

    Raises:
      ValueError: `law` and `rewards` are not both `[2]`, `law` is no distribution, or G < 2.
    """
    law, rewards = _outcomes(law, rewards, group_size, smallest_group=2)
    if len(law) != 2:
        raise ValueError(f"this mean field is for exactly 2 outcomes, not {len(law)}")
    counts = np.arange(1, group_size)
    first = rewards[0] * count_weight(counts, group_size, alpha, floor)
    second = rewards[1] * count_weight(group_size - counts, group_size, alpha, floor)
    # An exact tie, such as 4/(4/5) and 1/(1/5), must not become a full step by rounding.
    sign = np.where(np.isclose(first, second, rtol=1e-12, atol=0.0), 0.0, np.sign(first - second))
    shares = counts / group_size
    first_push = np.sum(binom.pmf(counts, group_size, law[0]) * np.sqrt(shares * (1 - shares)) * sign)
    return np.array([first_push, -first_push])


def _expected_weight(probability: np.ndarray, others: int, group_size: int, alpha: float, floor: float) -> np.ndarray:
    """E[omega(1 + B)] with B ~ Binomial(others, p) and the weights of a group of `group_size`."""
    counts = np.arange(others + 1)
    chances = binom.pmf(counts, others, np.asarray(probability, np.float64)[..., None])
    return chances @ count_weight(1 + counts, group_size, alpha, floor)


def _outcomes(
    law: np.ndarray, rewards: np.ndarray, group_size: int, smallest_group: int
) -> tuple[np.ndarray, np.ndarray]:
    law, rewards = np.asarray(law, np.float64), np.asarray(rewards, np.float64)
    if law.ndim != 1 or law.shape != rewards.shape:
        raise ValueError(f"law {law.shape} and rewards {rewards.shape} must both be [outcome]")
    if np.any(law < 0) or not np.isclose(law.sum(), 1.0, rtol=0.0, atol=1e-6):
        raise ValueError(f"law must be non-negative and sum to 1, but it is {law}")
    if group_size < smallest_group:
        raise ValueError(f"group_size is {group_size}, this rule needs at least {smallest_group}")
    return law, rewards
