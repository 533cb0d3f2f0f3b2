"""The best fixed routing policy that keeps to its budgets, exactly: what regret is measured against."""

import itertools

import numpy as np

from experiments.inference_routing.exp4 import Learner
from ipsrl.arguments import checked

MOST_POLICIES = 1_000_000


@checked
def best_fixed(learner: Learner) -> float:
    """The smallest error rate over all K^n choices of a threshold for each of n layers, with the learner's p_min.

    A learner mixes thresholds and may use its whole budgets, so that its regret can be negative.

    Raises:
      ValueError: there are over a million such policies, or none keeps to the budgets.
    """
    layers = learner.layers
    count = len(learner.thresholds) ** layers.num_local
    if count > MOST_POLICIES:
        raise ValueError(
            f"{count:,} routing policies are more than {MOST_POLICIES:,}: take fewer experts or layers"
        )
    # [D, K], of an expert's passing on given the difficulty.
    passes = learner.p_min + (1 - learner.p_min) * (layers.confidence_probs @ learner.passes)
    errors = np.empty(count)
    costs = np.empty((count, layers.num_local))
    choices = itertools.product(range(len(learner.thresholds)), repeat=layers.num_local)
    for number, experts in enumerate(choices):
        went = np.cumprod(passes[:, experts], axis=1)
        arrives = np.concatenate([np.ones_like(went[:, :1]), went[:, :-1]], axis=1)
        errors[number] = ((arrives - went) * layers.error_probs).sum(axis=1).mean()
        costs[number] = went.mean(axis=0) * layers.cost_of_each
    paid = costs @ layers.paid_from.T
    kept = (paid <= np.array(layers.budgets) + 1e-12).all(axis=1)
    if not kept.any():
        raise ValueError(f"budgets is {layers.budgets}, no expert keeps to it")
    return float(errors[kept].min())
