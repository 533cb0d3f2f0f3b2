"""Exact error rates and costs of layers beside those of sampled tasks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.inference_routing.inference_layers import InferenceLayers, of_depth

LAYERS = InferenceLayers((0.3, 0.15), (0.5, 0.25), costs=(1.0, 2.0))


def test_tasks_have_the_error_rates_and_confidences_of_the_world():
    tasks = LAYERS.tasks(jax.random.key(0), 200_000)
    np.testing.assert_allclose(tasks.errors.mean(axis=0), [0.3, 0.15], atol=0.004)
    np.testing.assert_allclose(LAYERS.error_probs.mean(axis=0), [0.3, 0.15], rtol=1e-12)
    for layer in range(2):
        shares = np.bincount(tasks.confidence[:, layer], minlength=LAYERS.levels) / 200_000
        np.testing.assert_allclose(shares, LAYERS.confidence_probs.mean(axis=0), atol=0.004)
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
    np.testing.assert_allclose(costs, [passed[:, 0].mean(), 2 * passed.all(axis=1).mean()], atol=0.006)


def test_only_the_oracle_is_right_and_it_costs_all():
    errors, costs = LAYERS.expected(jnp.ones((2, LAYERS.levels)))
    np.testing.assert_allclose((float(errors), *costs), (0.0, 1.0, 2.0), atol=1e-6)
    errors, costs = LAYERS.expected(jnp.zeros((2, LAYERS.levels)))
    np.testing.assert_allclose((float(errors), *costs), (0.3, 0.0, 0.0), rtol=1e-6)


def test_error_rates_fall_to_the_oracle():
    three = of_depth(3, 0.3, 0.5)
    assert three == InferenceLayers((0.3, 0.15), (0.5, 0.25))
    assert InferenceLayers((0.3, 0.15), (0.6,)).paid_from.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: InferenceLayers((), (0.5,)), "error_rates is .*at least one local model"),
        (lambda: InferenceLayers((0.5,), (0.5,)), "error_rates is .*from 0 to 1/3"),
        (lambda: InferenceLayers((0.3, 0.2, 0.1), (0.5, 0.5)), "budgets is .* one for each of 3 local models, or one"),
        (lambda: InferenceLayers((0.3,), (0.0,)), "budgets is 0.0, it must be positive"),
        (lambda: InferenceLayers((0.3,), (0.5,), (1.0, 1.0)), "costs is .* one for each of 1 local models"),
        (lambda: of_depth(1, 0.3, 0.5), "depth is 1, it must lie between 2 and 7"),
        (lambda: of_depth(3, 0.3, 0.0), "budget is 0.0, it must lie above 0"),
    ],
)
def test_layers_that_make_no_sense_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
