import itertools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.inference_routing.estimators import Estimator, Seen

LOSSES, BASES, PROBS = (0.0, 0.3, 1.0), (-0.5, 0.0, 0.3, 2.0), (1e-4, 0.05, 0.5, 1.0)


def enumerated(estimator):
    """All cases `[N]` of loss, baseline and p, with mean and variance of the estimate over what may be observed."""
    loss, base, p = np.array(list(itertools.product(LOSSES, BASES, PROBS))).T
    values = np.stack([estimator.estimate(loss, base, seen, jnp.asarray(p)) for seen in (0.0, 1.0)])
    mean = (1 - p) * values[0] + p * values[1]
    variance = (1 - p) * (values[0] - mean) ** 2 + p * (values[1] - mean) ** 2
    np.testing.assert_allclose(estimator.variance(loss, base, jnp.asarray(p)), variance, rtol=1e-10, atol=1e-12)
    return loss, base, p, mean, variance


def test_clipping_moves_the_mean_towards_the_baseline():
    with jax.enable_x64(True):
        loss, base, p, mean, _ = enumerated(Estimator(least=0.05))
        np.testing.assert_allclose(mean, base + (loss - base) * p / np.maximum(p, 0.05), atol=1e-12)


def test_learned_baselines_are_means_of_what_was_observed():
    seen = Seen(jnp.zeros((2, 3)), jnp.zeros((2, 2, 3)))
    mean, weighted = Estimator("mean"), Estimator("weighted mean")
    for observed, p, losses in ((1.0, 0.5, [[1.0], [2.0]]), (0.0, 0.5, [[1.0], [1.0]]), (1.0, 0.25, [[0.0], [1.0]])):
        weight = mean.weight_of(jnp.array(observed), jnp.array(p))
        seen = seen.with_losses((jnp.arange(2), jnp.array([2, 0])), weight, jnp.array(losses))
    answering, passing_on = mean.baselines(seen)
    np.testing.assert_allclose(answering, [[0, 0, 1 / 3], [1 / 3, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(passing_on, [[0, 0, 1], [1, 0, 0]], rtol=1e-6)
    assert float(weighted.weight_of(jnp.array(1.0), jnp.array(0.25))) == 4.0
    assert float(weighted.weight_of(jnp.array(0.0), jnp.array(0.25))) == 0.0
    np.testing.assert_array_equal(Estimator(constant=0.2).baselines(seen), np.full((2, 2, 3), np.float32(0.2)))
