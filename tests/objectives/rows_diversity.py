"""Declarations of the rows in `catalog/diversity.py`; n are counts, p the distribution, r the rewards."""

import itertools
from math import comb

import numpy as np

from tests.objectives.groups import ARM_FEATURES
from tests.objectives.rows import Row, centred, standardised
from tests.objectives.token_values import PPO, clipped, token_mean


def distinct_share(counts, rewards, floor=0.1, verifiable=True):
    counted = counts * (rewards > 0) if verifiable else counts
    total = counted.sum()
    share = (total - counted) / (total - 1) if total > 1 else np.ones(len(counts))
    return rewards * (np.maximum(share, floor) if verifiable else share)


def uniform_frequency(counts, rewards, valid=None):
    good = (rewards > 0) & (counts > 0)
    number = valid or max(good.sum(), 1)
    frequency = counts / max(counts[good].sum(), 1)
    return np.where(good, 1 - np.abs(frequency - 1 / number), -1.0)


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


def unlikely(counts, probs, rewards, beta=0.25):
    rank = np.array([counts[probs < p].sum() + (n - 1) / 2 for n, p in zip(counts, probs, strict=True)])
    return rewards * (1 - beta * rank / counts.sum())


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


def elliptical(counts, rewards, features, beta=0.01, ridge=0.01, without=0):
    """Rewards by definition: an inverse for each answer, of the covariance that leaves out `without` of its copies."""
    if not (counts * rewards > 0).any():
        return rewards
    centred_features = features - counts @ features / counts.sum()
    bonus = []
    for number, feature in enumerate(centred_features):
        others = counts - without * (np.arange(len(counts)) == number)
        covariance = (others[:, None] * centred_features).T @ centred_features
        bonus.append(feature @ np.linalg.inv(covariance + ridge * np.eye(len(feature))) @ feature)
    return rewards + beta * np.array(bonus)


def uniform_correct(counts, probs, rewards, tau=0.2):
    correct = counts * (rewards > 0)
    inverse = 1 / probs / max((correct / probs).sum(), 1e-9)
    return np.where(rewards > 0, 1 - tau + tau * correct.sum() * inverse, 1.0)


DRAWS = "it deals weights at random: test_diversity_peers.py counts where they fall"


ROWS = {
    "darling": Row(False, 1, "one outcome", lambda n, p, r: centred(n, distinct_share(n, r)), tokens=PPO),
    "darling(floor=0.5, standardise=True)": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, distinct_share(n, r, 0.5))
    ),
    # The clip is wide since one answer is at the mean of its group but for rounding, which decides on which side.
    "darling(verifiable=False, clip=(0.9, 9.0))": Row(
        False, 1, "one outcome", lambda n, p, r: centred(n, distinct_share(n, r, verifiable=False))
    ),
    "gapo": Row(False, 0, "one outcome", lambda n, p, r: standardised(n, uniform_frequency(n, r)), tokens=PPO),
    "gapo(valid=3, standardise=False)": Row(
        False, 0, "one outcome", lambda n, p, r: centred(n, uniform_frequency(n, r, 3))
    ),
    "pass_at_k": Row(False, 0, "equal rewards", lambda n, p, r: passing(n, r), tokens=PPO),
    "pass_at_k(k=3)": Row(False, 0, "equal rewards", lambda n, p, r: passing(n, r, 3)),
    "unlikeliness": Row(
        False,
        0,
        "no reward",
        lambda n, p, r: standardised(n, unlikely(n, p, r)),
        tokens=PPO,
        lengths="ranks answers by their probabilities: see test_diversity_peers.py",
    ),
    "unlikeliness(beta=0.7, standardise=False)": Row(
        False, 1, "no reward", lambda n, p, r: centred(n, unlikely(n, p, r, 0.7))
    ),
    "dra_grpo": Row(False, 0, "one outcome", lambda n, p, r: standardised(n, r / np.maximum(n, 1)), tokens=PPO),
    # On a bandit an answer is one token, so that tokens tell what outcomes tell.
    "dra_grpo(similarity=tokens, standardise=False)": Row(
        False, 1, "no reward", lambda n, p, r: centred(n, r / np.maximum(n, 1))
    ),
    "rep_exp": Row(
        False,
        None,
        "no reward",
        lambda n, p, r: standardised(n, elliptical(n, r, ARM_FEATURES[: len(n)])),
        tokens=token_mean(clipped(0.2, 0.2)),
    ),
    "rep_exp(beta=0.3, ridge=0.2, leave_one_out=True, standardise=False)": Row(
        False, None, "no reward", lambda n, p, r: centred(n, elliptical(n, r, ARM_FEATURES[: len(n)], 0.3, 0.2, 1))
    ),
    "rep_exp(features=outcome)": Row(
        False, None, "one outcome", lambda n, p, r: standardised(n, elliptical(n, r, np.eye(len(n))))
    ),
    "polychromic": Row(False, 1, "one outcome", lambda n, p, r: set_score(n, r), tokens=PPO),
    "polychromic(set_size=3, standardise=True)": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, set_score(n, r, 3))
    ),
    "ucpo": Row(
        False,
        0,
        "equal rewards",
        lambda n, p, r: standardised(n, r) * uniform_correct(n, p, r),
        tokens=PPO,
        lengths="weighs answers by their probabilities: see test_diversity_peers.py",
    ),
    "ucpo(tau=1.0, standardise=False)": Row(
        False, 1, "equal rewards", lambda n, p, r: centred(n, r) * uniform_correct(n, p, r, 1.0)
    ),
    "placebo": Row(False, 0, "one outcome", DRAWS, random=True, tokens=PPO),
}
