import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from ipsrl.dynamics import flows, reference_penalty
from ipsrl.dynamics.finite_groups import count_weights, mean_field

REWARDS, REFERENCE = np.array([4.0, 1.0, 2.0]), np.array([0.2, 0.5, 0.3])


def test_divergence_velocity_descends_the_divergence():
    logits, step = np.array([0.3, -1.0, 0.7]), 1e-5

    def divergence(z):
        return rel_entr(softmax(z), REFERENCE).sum()

    slope = [(divergence(logits + e) - divergence(logits - e)) / (2 * step) for e in step * np.eye(3)]
    np.testing.assert_allclose(reference_penalty.divergence_velocity(logits, REFERENCE), -np.array(slope), rtol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("beta", [0.02, 1.0, 50.0])
def test_the_flow_rests_at_its_distribution(alpha, beta):
    for rewards in (REWARDS, np.array([1.0, 0.0, 1.0])):
        probs = reference_penalty.distribution_of_flow(rewards, REFERENCE, beta, alpha)
        assert probs.sum() == pytest.approx(1.0, abs=1e-14)
        assert probs.min() > 0
        velocity = flows.flow_velocity(np.log(probs), rewards, alpha)
        velocity += beta * reference_penalty.divergence_velocity(np.log(probs), REFERENCE)
        np.testing.assert_allclose(velocity, 0.0, atol=1e-13 * (1 + beta))


@pytest.mark.parametrize("rule", ["no baseline", "group mean"])
@pytest.mark.parametrize("beta", [0.02, 1.0, 50.0])
def test_groups_rest_at_their_distribution(rule, beta):
    for weights in (count_weights(4), count_weights(6, 0.5, 0.3), count_weights(3, 0.0)):
        probs = reference_penalty.distribution_of_groups(REWARDS, REFERENCE, beta, weights, rule)
        assert probs.min() > 0
        field = mean_field(probs, REWARDS, weights, rule)
        field += beta * reference_penalty.divergence_velocity(np.log(probs), REFERENCE)
        np.testing.assert_allclose(field, 0.0, atol=1e-12 * (1 + beta))


def test_distributions_that_one_outcome_takes_almost_whole():
    """Rewards and weights over many orders of magnitude: rounding must neither lose the root nor overflow."""
    rewards = np.array([200.0, 0.1, 0.002])
    for beta in (1e-3, 0.1, 100.0):
        for alpha in (0.01, 10.0):
            probs = reference_penalty.distribution_of_flow(rewards, REFERENCE, beta, alpha)
            assert np.argmax(probs) == 0
        probs = reference_penalty.distribution_of_groups(
            rewards, REFERENCE, beta, count_weights(2, 10.0, 1 / 3), "no baseline"
        )
        assert probs.sum() == pytest.approx(1.0)
    only = np.ones(1)
    assert reference_penalty.distribution_of_flow(only, only, 0.3, 0.7).tolist() == [1.0]
    assert reference_penalty.distribution_of_groups(only, only, 0.3, count_weights(4), "group mean").tolist() == [1.0]
