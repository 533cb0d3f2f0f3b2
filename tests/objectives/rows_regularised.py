"""The reference is uniform on the bandit, so that a policy's ratio to it is K p."""

import numpy as np

from tests.objectives.rows import Row, centred, never_silent, standardised
from tests.oracles.token_values import clipped, policy_gradient, sequence_mean, sequence_sum


def to_target(counts, probs, rewards, beta=0.1, threshold=None):
    """beta times how far the target of MARA is above the distribution, in nats and up to a constant.

    The target is that of the KL-regularised return, ref exp(r / beta), but all good answers have that of the one which
    the reference likes best; under a uniform reference that is any, and the best is taken.
    """
    log_target = rewards / beta - np.log(len(probs))
    seen = rewards[counts > 0]
    level = threshold or (seen.max() if seen.max() > 0 else np.inf)
    good = rewards >= level
    log_target = np.where(good & (counts > 0), log_target.max(where=good & (counts > 0), initial=-np.inf), log_target)
    return beta * (log_target - np.log(probs))


def mastered(counts, rewards, share=1.0):
    return counts[rewards > 0].sum() >= share * counts.sum()


def preserved(counts, probs, rewards, eta=0.05, divergence="jensen_shannon", share=1.0, limit=5.0):
    """The share of the advantages that pulls mastered groups towards the reference."""
    ratio = probs * len(probs)
    importance = np.minimum(1 / ratio, limit)
    pull = 1.0 if divergence == "forward_kl" else -ratio * np.log(2 * ratio / (1 + ratio))
    return eta * importance * pull if mastered(counts, rewards, share) else 0 * probs


def learned(counts, rewards, share=1.0):
    return 0 * rewards if mastered(counts, rewards, share) else standardised(counts, rewards)


LINKS = {
    "reverse_kl": np.log,
    "forward_kl": lambda u: -1 / u,
    "jensen_shannon": lambda u: np.log(2 * u / (1 + u)),
    "alpha": lambda u: (1 - u**-0.3) / 0.3,
}


def linked(divergence, beta=0.1):
    return lambda n, p, r: centred(n, r - beta * LINKS[divergence](p * len(p)))


def filtered(alpha):
    def advantages(counts, probs, rewards):
        weights = rewards / probs
        mean = (counts * weights).sum() / counts.sum()
        ratios = (weights / mean) ** (1 - alpha) if mean > 0 else 0 * weights
        return counts.sum() / (counts.sum() - 1) * centred(counts, ratios)

    return advantages


ROWS = {
    # A shift gives groups without reward one, and MARA's default threshold with it.
    "mara": Row(
        False,
        None,
        "never",
        lambda n, p, r: centred(n, to_target(n, p, r)),
        tokens=sequence_sum(clipped(0.2, 0.2)),
        lengths="takes the divergence of whole answers: see test_regularised.py",
    ),
    "mara(beta=0.5, threshold=0.05)": Row(
        False, None, "never", lambda n, p, r: centred(n, to_target(n, p, r, 0.5, 0.05))
    ),
    "dph_rl": Row(
        False,
        0,
        "equal rewards",
        lambda n, p, r: learned(n, r) + preserved(n, p, r),
        tokens=sequence_mean(clipped(0.2, 0.28)),
    ),
    "dph_rl(eta=0.4, divergence=forward_kl, mastered_at=0.5, ratio_limit=1.5)": Row(
        False, 0, "equal rewards", lambda n, p, r: learned(n, r, 0.5) + preserved(n, p, r, 0.4, "forward_kl", 0.5, 1.5)
    ),
    "dph_rl(mastered_at=0.7, ratio_limit=1.2)": Row(
        False, 0, "equal rewards", lambda n, p, r: learned(n, r, 0.7) + preserved(n, p, r, share=0.7, limit=1.2)
    ),
    "tsallis": never_silent(
        lambda n, p, r: centred(n, r - 0.2 * p),
        tokens=sequence_sum(clipped(0.2, 0.2)),
        lengths="takes the probabilities of whole answers: see test_regularised.py",
    ),
    "tsallis(q=0.5)": never_silent(lambda n, p, r: centred(n, r + 0.1 / np.sqrt(p))),
    "tsallis(q=1.0, beta=0.5)": never_silent(lambda n, p, r: centred(n, r - 0.5 * np.log(p))),
    "f_divergence": never_silent(
        linked("reverse_kl"),
        tokens=sequence_sum(clipped(0.2, 0.2)),
        lengths="takes the divergence of whole answers: see test_regularised.py",
    ),
    "f_divergence(divergence=forward_kl)": never_silent(linked("forward_kl")),
    "f_divergence(divergence=jensen_shannon, beta=0.7)": never_silent(linked("jensen_shannon", 0.7)),
    "f_divergence(divergence=alpha, alpha=0.3)": never_silent(linked("alpha")),
    "alpha_dpg": Row(
        False,
        0,
        "no reward",
        filtered(0.25),
        tokens=sequence_sum(policy_gradient),
        lengths="takes the probabilities of whole answers: see test_regularised.py",
    ),
    "alpha_dpg(alpha=0.9)": Row(False, 0, "no reward", filtered(0.9)),
}
