"""The best fixed routing policy that keeps to its budgets, exactly: what regret is measured against."""

import functools
import itertools

import numpy as np

from experiments.inference_routing.exp4 import EXPERTS, PASSES
from experiments.inference_routing.inference_layers import CONFIDENCE_PROBS, InferenceLayers


@functools.cache
def best_fixed(layers: InferenceLayers, p_min: float) -> float:
    """The smallest error rate over all K^n choices of a threshold for each of n layers.

    A learner mixes thresholds and may use its whole budgets, so that its regret can be negative.
    """
    # [D, K], of an expert's passing on given the difficulty.
    passes = p_min + (1 - p_min) * (CONFIDENCE_PROBS @ PASSES)
    best = np.inf
    for experts in itertools.product(range(EXPERTS), repeat=layers.num_local):
        went = np.cumprod(passes[:, experts], axis=1)
        if (went.mean(axis=0) <= layers.budgets + 1e-12).all():
            answered = np.insert(went[:, :-1], 0, 1.0, axis=1) - went
            best = min(best, (answered * layers.error_probs).sum(axis=1).mean())
    return float(best)
