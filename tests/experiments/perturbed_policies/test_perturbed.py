import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from experiments.perturbed_policies.perturbed import (
    crossing_probability,
    gradient_estimates,
    perturbed_costs,
    scores_of,
)
from experiments.perturbed_policies.perturbed_paths import predicted_weights
from tests.experiments.perturbed_policies.known import cost_by, top_k

LAMBDAS = 0.01, 0.1, 0.3, 1.0, 3.0


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float64)


def test_two_items_are_chosen_by_a_normal_distribution():
    """With scores 0 and s the perturbed policy takes the second item with probability Phi(s / (lambda sqrt(2)))."""
    with jax.enable_x64(True):
        scores, costs, noise = jnp.array([0.0, 0.7]), jnp.array([2.0, 5.0]), normal(0, 200_000, 2)
        found = perturbed_costs(cost_by(top_k(2, 1)), scores, costs, noise, 0.5)
        # Of two draws each, where a baseline that held its own draw would halve the slope.
        gradient = gradient_estimates(found.reshape(-1, 2), noise.reshape(-1, 2, 2), 0.5).mean(axis=(0, 1))
        found, crossing = np.asarray(found), float(crossing_probability(top_k(2, 1), scores, noise, 0.5))
    at = 0.7 / (0.5 * 2**0.5)
    assert found.mean() == pytest.approx(2 + 3 * norm.cdf(at), abs=0.01)
    assert crossing == pytest.approx(1 - norm.cdf(at), abs=0.003)
    slope = 3 * norm.pdf(at) / (0.5 * 2**0.5)
    assert np.asarray(gradient) == pytest.approx([-slope, slope], abs=0.02)


@functools.cache
def check():
    """The note's check: top 3 of 8, linear scores, at lambda = 0.01, 0.1, 0.3, 1, 3, here with 4000 instances, not 400.

    The note does not give its draws: here s ~ N(0, 1)^8, costs -s + N(0, 1)^8 (without their noise a solution that is
    lost at a tie costs nothing, and estimates have no variance there), 64 draws. It has risk gaps 0.001, 0.027, 0.092,
    0.53, 1.70, and standard deviations 0.54, 0.17, 0.10, 0.06, 0.03 of single estimates.
    """
    with jax.enable_x64(True):
        scores, noise = normal(4, 4000, 8), normal(5, 4000, 64, 8)
        costs, decided = normal(6, 4000, 8) - scores, cost_by(top_k(8, 3))

        @jax.jit
        def at(smoothing):
            def of(scores, noise, costs):
                found = perturbed_costs(decided, scores, costs, noise, smoothing)
                gap = perturbed_costs(decided, scores, -scores, noise, smoothing)
                crossing = crossing_probability(top_k(8, 3), scores, noise, smoothing)
                estimates = (found - found.mean())[:, None] * noise / smoothing
                return gap.mean() - decided(scores, -scores), (estimates**2).mean(), crossing

            gap, square, crossing = jax.vmap(of)(scores, noise, costs)
            return gap.mean(), jnp.sqrt(square.mean()), crossing.mean()

        return np.array([at(smoothing) for smoothing in LAMBDAS]).T


def test_the_risk_gap_grows():
    """Whatever the draws, the gap increases, to S (1 - 1 / sqrt(1 + l^2)), where S is the mean sum of the top 3."""
    gaps = check()[0]
    assert (np.diff(gaps) > 0).all()
    best = np.sort(np.random.default_rng(0).normal(size=(200_000, 8)), axis=1)[:, -3:].sum(axis=1).mean()
    assert gaps[1:] == pytest.approx(best * (1 - (1 + np.array(LAMBDAS[1:]) ** 2) ** -0.5), rel=0.1)


def test_deviations_of_estimates_fall_as_the_root_of_lambda():
    """The note's fall by 3.2, 1.7, 1.7 and 2, as sqrt(10) and sqrt(3) up to the scale of the scores."""
    deviations, note = check()[1], np.array([0.54, 0.17, 0.10, 0.06, 0.03])
    ratios, of_note = deviations[:-1] / deviations[1:], note[:-1] / note[1:]
    assert ratios[:2] == pytest.approx([10**0.5, 3**0.5], rel=0.1)
    # The note has one digit or two.
    assert ratios[:3] == pytest.approx(of_note[:3], rel=0.15)


def test_crossings_are_of_order_lambda():
    crossing = check()[2]
    assert crossing[1] / crossing[0] == pytest.approx(10, rel=0.15)
    assert (np.diff(crossing) > 0).all()


def test_the_baseline_leaves_the_mean_and_takes_the_variance():
    with jax.enable_x64(True):
        scores, noise = jnp.array([0.2, 0.0, -0.1]), normal(6, 2000, 16, 3)
        of_items = 100 + jnp.array([1.0, 2.0, 0.0])
        costs = jax.vmap(lambda each: perturbed_costs(cost_by(top_k(3, 1)), scores, of_items, each, 0.3))(noise)
        with_baseline = np.asarray(gradient_estimates(costs, noise, 0.3))
        without = np.asarray(costs[..., None] * noise / 0.3)
    assert with_baseline.std() < 0.02 * without.std()
    error = without.mean(axis=1).std(axis=0) / 2000**0.5
    assert (np.abs(with_baseline.mean(axis=(0, 1)) - without.mean(axis=(0, 1))) < 4 * error).all()


def test_predicted_weights_minimise_squares_counted_by_instance():
    with jax.enable_x64(True):
        features, costs, counts = normal(8, 6, 4, 3), normal(9, 6, 4), np.array([0, 1, 3, 0, 2, 1])
        found = np.asarray(predicted_weights(features, costs, counts.astype(float)))
        rows, targets = np.repeat(features, counts, axis=0).reshape(-1, 3), np.repeat(costs, counts, axis=0).ravel()
        scores = np.asarray(scores_of(found, features))
    assert found == pytest.approx(np.linalg.lstsq(rows, targets)[0], abs=1e-9)
    assert scores == pytest.approx(-np.asarray(features) @ found / np.linalg.norm(found), abs=1e-9)
