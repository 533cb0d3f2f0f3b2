"""How much variance a baseline could remove at best: exact, for the first layer's error at equal weights.

The variance of an estimate given the task is (e - b)^2 (1 / p - 1), so that the best b for a confidence is the mean of
e weighted by 1 / p - 1. Tasks that hardly reach the oracle have the largest weights. They are those that all layers
are confident of, which hardly err: so the best b is small, and the more so the more layers there are. Derived.
"""

from experiments.inference_routing.exp4 import PASSES
from experiments.inference_routing.inference_layers import CONFIDENCE_PROBS, InferenceLayers


def removable(layers: InferenceLayers, p_min: float) -> float:
    """The share of the variance of plain importance weighting that the best baseline for each confidence removes."""
    chosen = PASSES.mean(axis=1)
    pass_on = p_min + (1 - p_min) * chosen
    later_layers = layers.num_local - 1
    # [D, levels]: mean of 1 / p - 1 given difficulty and first confidence, times their probability.
    behind = (CONFIDENCE_PROBS @ (1 / pass_on)) ** later_layers
    odds = behind[:, None] / pass_on - 1
    weight = CONFIDENCE_PROBS * odds
    # A square of an error, which is 0 or 1, is the error: the sum of weight (e - b)^2 is least at b = total / mass.
    errors = layers.error_probs[:, :1]
    total = (weight * errors).sum(axis=0)
    mass = weight.sum(axis=0)
    saved = total**2 / mass
    return float(saved.sum() / total.sum())
