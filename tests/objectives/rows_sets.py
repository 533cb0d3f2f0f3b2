import itertools
from math import comb

import numpy as np

from tests.objectives.groups import SHARES
from tests.objectives.rows import Row, like_dr_grpo, like_grpo, over_std, standardised
from tests.oracles.token_values import PPO


def passing(counts, rewards, k=2):
    """Advantages by definition: every set of k is one sample of a Bernoulli distribution."""
    group = np.repeat(np.arange(len(counts)), counts)
    sets = list(itertools.combinations(range(len(group)), k))
    success = np.array([(rewards[group[list(members)]] > 0).any() for members in sets], float)
    if success.std() == 0:
        return np.zeros(len(counts))
    score = (success - success.mean()) / success.std()
    advantages = np.zeros(len(counts))
    for sample, outcome in enumerate(group):
        advantages[outcome] = np.mean([value for value, members in zip(score, sets, strict=True) if sample in members])
    return advantages


def set_score(counts, rewards, size=2):
    """Advantages by definition: the mean score of the sets that hold a sample, less that of all sets."""
    group = np.repeat(np.arange(len(counts)), counts)
    sets = list(itertools.combinations(range(len(group)), size))
    score = [rewards[group[list(m)]].mean() * len(set(group[list(m)])) / size for m in sets]
    advantages = np.zeros(len(counts))
    for sample, outcome in enumerate(group):
        held = [value for value, members in zip(score, sets, strict=True) if sample in members]
        assert len(held) == comb(len(group) - 1, size - 1)
        advantages[outcome] = np.mean(held) - np.mean(score)
    return advantages


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


def best_of_sets_by_weights(counts, rewards, k=2, divisions=16):
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
    "pass_at_k": Row(False, 0, "equal rewards", lambda n, p, r: passing(n, r), tokens=PPO),
    "pass_at_k(k=3)": Row(False, 0, "equal rewards", lambda n, p, r: passing(n, r, 3)),
    "polychromic": Row(False, 1, "one outcome", lambda n, p, r: set_score(n, r), tokens=PPO),
    "polychromic(set_size=3, standardise=True)": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, set_score(n, r, 3))
    ),
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
    "vector_po": like_dr_grpo(lambda n, p, r: best_of_sets_by_weights(n, r), tokens=PPO),
    "vector_po(k=3, divisions=5)": like_dr_grpo(lambda n, p, r: best_of_sets_by_weights(n, r, 3, 5)),
}
