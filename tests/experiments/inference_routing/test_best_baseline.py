import jax
import numpy as np
import pytest

from experiments.inference_routing.best_baseline import removable
from experiments.inference_routing.exp4 import PASSES
from experiments.inference_routing.inference_layers import InferenceLayers


@pytest.mark.parametrize("depth", [2, 4])
def test_no_baseline_of_a_confidence_removes_more(depth):
    layers = InferenceLayers(depth, 0.3, 0.5)
    tasks = layers.tasks(jax.random.key(0), 400_000)
    pass_on = 0.1 + 0.9 * PASSES.mean(axis=1)
    confidence, errors = np.asarray(tasks.confidence), np.asarray(tasks.errors[:, 0], np.float64)
    weight = 1 / pass_on[confidence].prod(axis=1) - 1
    total, mass = (np.bincount(confidence[:, 0], weight * of, minlength=9) for of in (errors, np.ones_like(errors)))
    gaps = errors - (total / mass)[confidence[:, 0]]
    share = 1 - (weight * gaps**2).sum() / (weight * errors).sum()
    assert removable(layers, 0.1) == pytest.approx(share, abs=0.01)


def test_it_falls_with_depth_and_with_the_error_rate():
    common, rare = (
        [removable(InferenceLayers(depth, rate, 0.5), 0.1) for depth in (2, 3, 4, 5)] for rate in (0.3, 0.03)
    )
    np.testing.assert_allclose(common, [0.296, 0.245, 0.191, 0.136], atol=1e-3)
    np.testing.assert_allclose(rare, np.array(common) / 10, rtol=1e-6)
