"""A proxy reward that one wrong outcome hacks, on the bandit of `right_and_wrong`, and what a penalty leaves of it."""

import math

import numpy as np
from scipy.special import softmax

from experiments.verifiers.right_and_wrong import HACK, RIGHT, policy
from ipsrl.dynamics.verifier_errors import distance, exact_update
from ipsrl.measures import distances
from ipsrl.rewards import NoisyVerifier
from ipsrl.study.curves import Points

PROXY = np.array([[1.0, 1.0, 1.0, 2.0, 0.0, 0.0]], np.float32)
COMMON = "3.5 % of the hack"
RARE = "0.007 % of the hack"
STARTS = {COMMON: policy(0.3, 0.05), RARE: policy(0.3, 0.0001)}
"""Logits of the policy at the start; right outcomes have 30 % in both."""
LATE = tuple(np.log([0.83, 0.12, 0.03, 0.01, 0.005, 0.005]).tolist())
"""Logits of a policy such as GRPO ends with under a clean reward."""


def measures(probs: np.ndarray, start: str) -> dict[str, np.ndarray]:
    """True reward, probability of the hack, and KL(policy || start) in nats, of distributions `[..., 6]`.

    wasted: whether the policy hacks, with more than half of its probability, or stagnates, less than 0.1 nats away.
    """
    divergence = np.asarray(distances.reverse_kl(probs, softmax(STARTS[start])), np.float64)
    hack = probs[..., HACK]
    return {
        "true": probs[..., :HACK].sum(axis=-1),
        "hack": hack,
        "divergence": divergence,
        "wasted": ((hack > 0.5) | (divergence < 0.1)).astype(float),
    }


def optimum(beta: float, start: str) -> Points:
    """The optimum of the proxy less beta KL: start x exp(proxy / beta), normalised."""
    logits = np.array(STARTS[start]) + PROXY[0] / beta
    return Points([0], measures(softmax(logits), start))


def bound(start: str) -> float:
    """The largest true reward that such an optimum has at any coefficient: a / (a + 2 sqrt(h w)).

    With a right, h of the hack, w other wrong outcomes at the start and t = exp(1 / beta) the optimum has the true
    reward a t / (a t + h t^2 + w), which is largest at t = sqrt(w / h).
    """
    probs = softmax(STARTS[start])
    right = float(probs[:HACK].sum())
    hack = float(probs[HACK])
    other = 1 - right - hack
    return right / (right + 2 * math.sqrt(hack * other))


def share_of_divergence(objective: str, group_size: int) -> Points:
    """How far the exact update at LATE is from the one without a divergence from COMMON, relative to the larger."""
    without = objective.partition("(")[0]
    updates = [
        exact_update(name, LATE, RIGHT, NoisyVerifier(), group_size, STARTS[COMMON])
        for name in (objective, without)
    ]
    return Points([0], {"moved": distance(*updates)})
