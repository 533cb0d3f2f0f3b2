import functools

import numpy as np
import pytest
from scipy.special import softmax

from ipsrl.dynamics import flows, potentials
from ipsrl.dynamics.finite_groups import count_weights, mean_field, without_one_sample

LOGITS, REWARDS = np.array([0.3, -1.0, 0.7]), np.array([1.0, 0.5, 2.0])


def gradient(potential, logits, step=1e-5):
    """By central differences."""
    return [(potential(logits + e) - potential(logits - e)) / (2 * step) for e in step * np.eye(len(logits))]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_the_flow_climbs_its_potential(alpha):
    velocity = functools.partial(flows.flow_velocity, rewards=REWARDS, alpha=alpha)
    potential = functools.partial(potentials.flow_potential, rewards=REWARDS, alpha=alpha)
    np.testing.assert_allclose(velocity(LOGITS), gradient(potential, LOGITS), rtol=1e-8)
    heights = [potential(logits) for logits in flows.integrate(velocity, LOGITS, np.linspace(0.0, 1.0, 20))]
    assert np.all(np.diff(heights) > 0)


def test_the_potential_at_one_is_the_limit_of_the_others():
    """But for the constant sum r / (1 - alpha)."""
    small = 2.0**-10
    near = [potentials.flow_potential(LOGITS, REWARDS, 1 - e) - REWARDS.sum() / e for e in (-small, small)]
    assert np.mean(near) == pytest.approx(potentials.flow_potential(LOGITS, REWARDS, 1.0), rel=1e-5)


@pytest.mark.parametrize("weights", [count_weights(6), count_weights(4, 0.5, 0.4), np.array([2.0, 3.0, 0.5])])
def test_groups_climb_their_potential(weights):
    for rule, effective in (("no baseline", weights), ("group mean", without_one_sample(weights))):
        potential = functools.partial(potentials.group_potential, rewards=REWARDS, weights=effective)
        field = mean_field(softmax(LOGITS), REWARDS, weights, rule)
        np.testing.assert_allclose(field, gradient(potential, LOGITS), rtol=1e-8)


def test_inverse_probability_scaling_descends_the_cross_entropy():
    target, probs = REWARDS / REWARDS.sum(), softmax(LOGITS)
    cross_entropy = potentials.cross_entropy_to_rewards(LOGITS, REWARDS)
    assert cross_entropy == pytest.approx(-target @ np.log(probs), rel=1e-13)
    potential = potentials.flow_potential(LOGITS, REWARDS, alpha=1.0)
    assert cross_entropy == pytest.approx(-potential / REWARDS.sum(), rel=1e-13)
    velocity = functools.partial(flows.flow_velocity, rewards=REWARDS, alpha=1.0)
    path = flows.integrate(velocity, np.array([-6.0, 5.0, 0.0]), np.linspace(0.0, 4.0, 60))
    assert np.all(np.diff([potentials.cross_entropy_to_rewards(logits, REWARDS) for logits in path]) < 0)
