"""The best fixed policy, against a search by hand."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.online.best_fixed import best_fixed
from ipsrl.online.exp4 import Learner
from ipsrl.online.inference_layers import InferenceLayers, of_depth


def test_the_best_expert_keeps_to_the_budgets():
    learner = Learner(of_depth(3, 0.3, 0.5))
    found = best_fixed(learner)
    kept = []
    for experts in itertools.product(range(10), repeat=2):
        chosen = np.stack([learner.passes[:, expert] for expert in experts])
        error, costs = learner.layers.expected(jnp.asarray(0.1 + 0.9 * chosen))
        if (np.asarray(costs) <= learner.layers.budgets).all():
            kept.append(float(error))
    assert found.expert == pytest.approx(min(kept), rel=1e-5)
    assert 0 < found.mixture <= found.expert


def test_a_mixture_of_two_experts_uses_the_whole_budget():
    layers = InferenceLayers((0.3,), (0.5,), levels=2)
    found = best_fixed(Learner(layers, thresholds=(0, 2), p_min=0.1))
    # Pass-on probabilities of 0.1 and 1, mixed to 0.5, whatever the confidence.
    assert found.expert == pytest.approx(0.9 * 0.3)
    assert found.mixture == pytest.approx(0.5 * 0.3)


def test_without_limits_the_oracle_answers_all():
    assert best_fixed(Learner(InferenceLayers((0.3, 0.15), (2.0,)))).expert == pytest.approx(0.0, abs=1e-12)


def test_what_has_no_best_is_refused():
    with pytest.raises(ValueError, match="no expert keeps to it"):
        best_fixed(Learner(of_depth(3, 0.3, 0.5), thresholds=(9,)))
    with pytest.raises(ValueError, match="10,000,000 routing policies are more than 1,000,000"):
        best_fixed(Learner(InferenceLayers((0.3,) * 7, (1.0,))))
