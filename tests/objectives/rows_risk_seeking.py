"""Declarations of the rows in `catalog/risk_seeking.py`; n are counts, p the distribution, r the rewards."""

import itertools

import numpy as np

from tests.objectives.rows import Row, like_dr_grpo, like_grpo, over_std
from tests.objectives.token_values import PPO


def relative_utility(counts, rewards, beta=2.0):
    utility = np.exp(np.minimum(beta * (rewards - rewards[counts > 0].max()), 0.0))
    return (utility / (counts @ utility / counts.sum()) - 1) / beta


def best_of_sets(counts, rewards, k=2, baseline="rest_of_set", graded=False):
    """Advantages by definition: all sets that hold a sample, and all that do not."""
    group = np.repeat(np.arange(len(counts)), counts)
    values = rewards[group] if graded else (rewards[group] > 0).astype(float)
    size, advantages = len(group), np.zeros(len(counts))
    for sample, outcome in enumerate(group):
        others = np.delete(values, sample)
        rests = list(itertools.combinations(others, k - 1))
        advantages[outcome] = k / size * np.mean([max(*rest, values[sample]) for rest in rests])
        if baseline == "rest_of_set":
            advantages[outcome] -= k / size * np.mean([max(rest) for rest in rests])
        elif baseline == "other_sets":
            sets = itertools.combinations(others, k)
            advantages[outcome] -= k / (size - 1) * np.mean([max(members) for members in sets])
    return advantages


def best_of_all(counts, rewards, standardise):
    group = np.repeat(rewards, counts)
    best, second = np.sort(group)[[-1, -2]]
    gained = np.where((rewards == best) & (counts > 0), best - second, 0)
    return over_std(gained, group.std(), group) if standardise else gained


ROWS = {
    "rs_grpo": Row(True, None, "equal rewards", lambda n, p, r: relative_utility(n, r), tokens=PPO),
    "rs_grpo(beta=0.5)": Row(True, None, "equal rewards", lambda n, p, r: relative_utility(n, r, 0.5)),
    "top_one": like_grpo(lambda n, p, r: best_of_all(n, r, True), tokens=PPO),
    "top_one(standardise=False)": like_dr_grpo(lambda n, p, r: best_of_all(n, r, False)),
    "pkpo": Row(False, 0, "equal rewards", lambda n, p, r: best_of_sets(n, r), tokens=PPO),
    "pkpo(k=4)": Row(False, 0, "equal rewards", lambda n, p, r: best_of_sets(n, r, 4)),
    "pkpo(k=3, graded=True)": like_dr_grpo(lambda n, p, r: best_of_sets(n, r, 3, graded=True)),
    "pkpo(baseline=other_sets)": Row(False, 0, "no reward", lambda n, p, r: best_of_sets(n, r, baseline="other_sets")),
    "pkpo(k=3, baseline=other_sets, graded=True)": Row(
        False, 1, "no reward", lambda n, p, r: best_of_sets(n, r, 3, "other_sets", graded=True)
    ),
    "pkpo(k=3, baseline=none, graded=True)": Row(
        False, 1, "no reward", lambda n, p, r: best_of_sets(n, r, 3, "none", graded=True)
    ),
}
