"""How much variance a baseline could remove at best: exact, for the first layer's error at equal weights.

The variance of an estimate given the task is (e - b)^2 (1 / p - 1), so that the best b for a confidence is the mean of
e weighted by 1 / p - 1. Tasks that hardly reach the oracle have the largest weights. They are those that all layers
are confident of, which hardly err: so the best b is small, and the more so the more layers there are. Derived.
"""

import numpy as np

from experiments.inference_routing.exp4 import Learner
from ipsrl.arguments import checked


@checked
def removable(learner: Learner) -> float:
    """The share of the variance of plain importance weighting that the best baseline for each confidence removes.

    It is 0 if the first model never errs.
    """
    layers = learner.layers
    pass_on = learner.p_min + (1 - learner.p_min) * learner.passes.mean(axis=1)
    probs = layers.confidence_probs
    errors = layers.error_probs[:, :1]
    # [D, levels]: mean of 1 / p - 1 given difficulty and first confidence, times their probability.
    behind = (probs @ (1 / pass_on)) ** (layers.num_local - 1)
    weight = probs * (behind[:, None] / pass_on - 1)
    # A square of an error, which is 0 or 1, is the error: the sum of weight (e - b)^2 is least at b = total / mass.
    total = (weight * errors).sum(axis=0)
    mass = weight.sum(axis=0)
    plain = total.sum()
    if plain == 0:
        return 0.0
    saved = total**2 / np.where(mass > 0, mass, 1.0)
    return float(saved.sum() / plain)
