import functools
import math

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

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


def test_the_potential_of_groups_counts_harmonically():
    """sum_i r_i E[1 + 1/2 + ... + 1/n_i] for alpha = 1 without a floor."""
    group_size, probs = 7, softmax(LOGITS)
    expected = 0.0
    for p, reward in zip(probs, REWARDS, strict=True):
        for n in range(1, group_size + 1):
            chance = math.comb(group_size, n) * p**n * (1 - p) ** (group_size - n)
            expected += reward * chance * sum(1 / k for k in range(1, n + 1))
    assert potentials.group_potential(LOGITS, REWARDS, count_weights(group_size)) == pytest.approx(expected, rel=1e-13)


def test_inverse_probability_scaling_descends_the_cross_entropy():
    target, probs = REWARDS / REWARDS.sum(), softmax(LOGITS)
    cross_entropy = potentials.cross_entropy_to_rewards(LOGITS, REWARDS)
    assert cross_entropy == pytest.approx(-target @ np.log(probs), rel=1e-13)
    potential = potentials.flow_potential(LOGITS, REWARDS, alpha=1.0)
    assert cross_entropy == pytest.approx(-potential / REWARDS.sum(), rel=1e-13)
    velocity = functools.partial(flows.flow_velocity, rewards=REWARDS, alpha=1.0)
    path = flows.integrate(velocity, np.array([-6.0, 5.0, 0.0]), np.linspace(0.0, 4.0, 60))
    assert np.all(np.diff([potentials.cross_entropy_to_rewards(logits, REWARDS) for logits in path]) < 0)


def test_only_the_potential_is_monotone_at_every_alpha():
    """KL(p* || p) may rise for three outcomes and alpha other than 1, but not for two, nor for alpha = 1."""
    random = np.random.default_rng(0)

    def rises(num_outcomes, alpha):
        """In how many of 2000 random states d KL(p* || p)/dt = -sum_i p*_i d log p_i/dt is positive."""
        number = 0
        for _ in range(2000):
            logits, rewards = np.log(random.dirichlet(np.ones(num_outcomes))), random.uniform(0.1, 5.0, num_outcomes)
            velocity = flows.flow_velocity(logits, rewards, alpha)
            target = flows.stationary_distribution(rewards, alpha)
            number += (softmax(logits) - target) @ velocity > 1e-12
        return number

    assert rises(3, 0.3) > 0
    assert rises(2, 0.3) == rises(3, 1.0) == 0


def test_the_distance_rises_while_the_potential_does():
    rewards, alpha = np.array([5.0, 0.4, 4.5]), 0.3
    target = flows.stationary_distribution(rewards, alpha)
    velocity = functools.partial(flows.flow_velocity, rewards=rewards, alpha=alpha)
    path = flows.integrate(velocity, np.log([0.002, 0.148, 0.85]), np.linspace(0.0, 40.0, 200))
    distances = np.array([rel_entr(target, softmax(logits)).sum() for logits in path])
    assert np.all(np.diff([potentials.flow_potential(logits, rewards, alpha) for logits in path]) > 0)
    assert distances.max() > distances[0] + 0.01
    assert distances[-1] < distances[0]


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="alpha"):
        potentials.flow_potential(LOGITS, REWARDS, -1.0)
    with pytest.raises(ValueError, match="must both be"):
        potentials.group_potential(LOGITS, REWARDS[:2], count_weights(4))
    with pytest.raises(ValueError, match="one weight for each count"):
        potentials.group_potential(LOGITS, REWARDS, np.array([]))
    with pytest.raises(ValueError, match="negative"):
        potentials.cross_entropy_to_rewards(LOGITS, -REWARDS)
