import numpy as np

from tests.objectives.groups import ARM_FEATURES
from tests.objectives.rows import Row, centred, standardised
from tests.oracles.token_values import PPO, clipped, token_mean


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
    "placebo": Row(False, 0, "one outcome", DRAWS, random=True, tokens=PPO),
}
