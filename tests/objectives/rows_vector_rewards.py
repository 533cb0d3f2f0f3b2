"""Declarations of the rows in `catalog/vector_rewards.py`; n are counts, p the distribution, r the rewards.

The two rewards of an outcome are its reward times its `SHARES`.
"""

import itertools

import numpy as np

from tests.objectives.groups import SHARES
from tests.objectives.rows import like_dr_grpo, like_grpo, standardised
from tests.objectives.token_values import PPO


def sum_of_normalised(counts, rewards, weights=(1.0, 1.0)):
    """A batch is one group here."""
    parts = rewards[:, None] * SHARES[: len(rewards)]
    total = sum(weight * standardised(counts, part) for weight, part in zip(weights, parts.T, strict=True))
    return standardised(counts, np.round(total, 9))


def best_of_sets(counts, rewards, k=2, divisions=16):
    """Advantages by definition: all sets that hold a sample, less all sets."""
    group = np.repeat(np.arange(len(counts)), counts)
    middles = (np.arange(divisions) + 0.5) / divisions
    worth = np.stack([middles, 1 - middles], axis=1) @ (rewards[:, None] * SHARES[: len(rewards)]).T
    sets = list(itertools.combinations(range(len(group)), k))
    values = np.array([worth[:, group[list(members)]].max(axis=1).mean() for members in sets])
    advantages = np.zeros(len(counts))
    for sample, outcome in enumerate(group):
        advantages[outcome] = values[[sample in members for members in sets]].mean() - values.mean()
    return advantages


ROWS = {
    "gdpo": like_grpo(lambda n, p, r: sum_of_normalised(n, r), tokens=PPO),
    "gdpo(weights=(1.0, 0.25))": like_grpo(lambda n, p, r: sum_of_normalised(n, r, (1.0, 0.25))),
    "vector_po": like_dr_grpo(lambda n, p, r: best_of_sets(n, r), tokens=PPO),
    "vector_po(k=3, divisions=5)": like_dr_grpo(lambda n, p, r: best_of_sets(n, r, 3, 5)),
}
