"""The best fixed policy, against a search by hand."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.inference_routing.best_fixed import best_fixed
from experiments.inference_routing.exp4 import Learner
from experiments.inference_routing.inference_layers import InferenceLayers, of_depth


def test_the_best_expert_keeps_to_the_budgets():
    learner = Learner(of_depth(3, 0.3, 0.5))
    found = best_fixed(learner)
    kept = []
    for experts in itertools.product(range(10), repeat=2):
        chosen = np.stack([learner.passes[:, expert] for expert in experts])
        error, costs = learner.layers.expected(jnp.asarray(0.1 + 0.9 * chosen))
        if (np.asarray(costs) <= learner.layers.budgets).all():
            kept.append(float(error))
    assert found == pytest.approx(min(kept), rel=1e-5)


def test_without_limits_the_oracle_answers_all():
    assert best_fixed(Learner(InferenceLayers((0.3, 0.15), (2.0,)))) == pytest.approx(0.0, abs=1e-12)


def test_what_has_no_best_is_refused():
    with pytest.raises(ValueError, match="no expert keeps to it"):
        best_fixed(Learner(of_depth(3, 0.3, 0.5), thresholds=(9,)))
    with pytest.raises(ValueError, match="10,000,000 routing policies are more than 1,000,000"):
        best_fixed(Learner(InferenceLayers((0.3,) * 7, (1.0,))))
