import numpy as np

from tests.objectives.rows import Row, centred, like_grpo, never_silent, standardised
from tests.oracles.token_values import PPO


def by_size(counts, rewards, alpha=1.0):
    return np.where(rewards > 0, np.maximum(counts, 1.0) ** -alpha, 1.0)


def surprise(counts):
    return -np.log(np.maximum(counts, 1) / counts.sum())


def alike(counts):
    return (counts - 1) / counts.sum()


def influence(counts):
    """`[K]` by definition: the diversity of the group, less that of the group without one answer."""

    def diversity(counts):
        return 1 - (counts**2).sum() / counts.sum() ** 2

    without = np.maximum(counts - np.eye(len(counts)), 0)
    return np.array([diversity(counts) - diversity(rest) for rest in without])


ROWS = {
    "uniqueness_aware": Row(False, 0, "equal rewards", lambda n, p, r: standardised(n, r) * by_size(n, r), tokens=PPO),
    "uniqueness_aware(alpha=0.5, standardise=False)": Row(
        False, 1, "equal rewards", lambda n, p, r: centred(n, r) * by_size(n, r, 0.5)
    ),
    "answer_entropy": Row(
        True, None, "only one outcome", lambda n, p, r: centred(n, r + 0.1 * surprise(n)), tokens=PPO
    ),
    "answer_entropy(beta=0.3, form=gini, standardise=True)": Row(
        True, None, "only one outcome", lambda n, p, r: standardised(n, r - 0.3 * n / n.sum())
    ),
    "outcome_exploration": never_silent(lambda n, p, r: standardised(n, r) - 0.1 * alike(n), tokens=PPO),
    "outcome_exploration(weight=0.4, standardise=False)": never_silent(lambda n, p, r: centred(n, r) - 0.4 * alike(n)),
    # In the first batch every outcome is new.
    "outcome_exploration(bonus=ucb)": never_silent(lambda n, p, r: standardised(n, r) + 0.1),
    "outcome_exploration(bonus=ucb_con)": never_silent(lambda n, p, r: standardised(n, r) + 0.05),
    "outcome_exploration(bonus=ucb_mean)": like_grpo(),
    "setpo": Row(True, None, "only one outcome", lambda n, p, r: standardised(n, r) + influence(n), tokens=PPO),
    "setpo(weight=3.0, standardise=False)": Row(
        True, None, "only one outcome", lambda n, p, r: centred(n, r) + 3 * influence(n)
    ),
}
