import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.inference_routing.inference_layers import CONFIDENCE_PROBS, LEVELS, InferenceLayers

LAYERS = InferenceLayers(3, 0.3, 0.5)


def test_tasks_have_the_error_rates_and_confidences_of_the_world():
    tasks = LAYERS.tasks(jax.random.key(0), 200_000)
    np.testing.assert_allclose(tasks.errors.mean(axis=0), [0.3, 0.15], atol=0.004)
    np.testing.assert_allclose(LAYERS.error_probs.mean(axis=0), [0.3, 0.15], rtol=1e-12)
    for layer in range(2):
        shares = np.bincount(tasks.confidence[:, layer], minlength=LEVELS) / 200_000
        np.testing.assert_allclose(shares, CONFIDENCE_PROBS.mean(axis=0), atol=0.004)
    # Both follow the difficulty.
    assert np.corrcoef(tasks.confidence[:, 0], tasks.confidence[:, 1])[0, 1] > 0.5
    assert np.corrcoef(tasks.confidence[:, 0], tasks.errors[:, 1])[0, 1] < -0.2


def test_exact_errors_and_costs_are_those_of_sampled_decisions():
    pass_on = np.array([[1.0, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.1]] * 2) * [[1.0], [0.6]]
    tasks = LAYERS.tasks(jax.random.key(1), 200_000)
    passed = jax.random.uniform(jax.random.key(2), (200_000, 2)) < pass_on[np.arange(2), tasks.confidence]
    errors, costs = LAYERS.expected(jnp.asarray(pass_on))
    wrong = np.where(passed[:, 0], ~passed[:, 1] * tasks.errors[:, 1], tasks.errors[:, 0])
    assert float(errors) == pytest.approx(wrong.mean(), abs=0.004)
    np.testing.assert_allclose(costs, [passed[:, 0].mean(), passed.all(axis=1).mean()], atol=0.006)
