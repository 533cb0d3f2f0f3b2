import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.inference_routing.best_fixed import best_fixed
from experiments.inference_routing.exp4 import PASSES
from experiments.inference_routing.inference_layers import InferenceLayers


def test_the_best_expert_keeps_to_the_budgets():
    layers = InferenceLayers(3, 0.3, 0.5)
    kept = []
    for experts in itertools.product(range(10), repeat=2):
        chosen = np.stack([PASSES[:, expert] for expert in experts])
        error, costs = layers.expected(jnp.asarray(0.1 + 0.9 * chosen))
        if (np.asarray(costs) <= layers.budgets).all():
            kept.append(float(error))
    assert best_fixed(layers, 0.1) == pytest.approx(min(kept), rel=1e-5)


def test_without_limits_the_oracle_answers_all():
    assert best_fixed(InferenceLayers(3, 0.3, 1.0), 0.1) == pytest.approx(0.0, abs=1e-12)
