import numpy as np
import pytest
from scipy.stats import binom

from experiments.recovery_time import step_sizes
from ipsrl.dynamics import flows
from ipsrl.dynamics.finite_groups import count_weights

REWARDS = np.array([2.0, 1.0, 0.5])


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_jacobian_at_rest(alpha):
    rest, step = np.log(flows.stationary_distribution(REWARDS, alpha)), 1e-5
    columns = [
        (flows.flow_velocity(rest + e, REWARDS, alpha) - flows.flow_velocity(rest - e, REWARDS, alpha)) / (2 * step)
        for e in step * np.eye(3)
    ]
    np.testing.assert_allclose(step_sizes.jacobian_at_rest(REWARDS, alpha), np.transpose(columns), atol=1e-8)


@pytest.mark.parametrize(("rewards", "alpha", "rate"), [([4.0, 1.0], 1.0, 1.6), ([2.0, 1.0], 0.5, 0.358)])
def test_rates_at_rest(rewards, alpha, rate):
    assert step_sizes.rates_at_rest(np.array(rewards), alpha).tolist() == pytest.approx([rate], rel=4e-3)


def test_rates_of_a_tie():
    for alpha in (0.5, 1.0, 3.0):
        rates = step_sizes.rates_at_rest(np.full(5, 1.5), alpha)
        np.testing.assert_allclose(rates, alpha * 1.5 * 5 ** (alpha - 1), rtol=1e-12)
    assert np.isfinite(step_sizes.rates_at_rest(REWARDS * 1e3, 0.01)).all()  # r^(1/alpha) alone would overflow


def mean_change_of_rarity(rewards, weights, step_size, rare):
    """Mean of 1 / p_2 after an update without a baseline, less 1 / p_2, over the groups that matter at a tiny p_2."""
    first, second = rewards
    group_size, probs = len(weights), np.array([1 - rare, rare])
    change = 0.0
    for n in range(group_size + 1):
        scaled = np.array(
            [first * weights[group_size - n - 1] if n < group_size else 0.0, second * weights[n - 1] if n > 0 else 0.0]
        )
        pushes = np.array([group_size - n, n]) / group_size * scaled
        update = pushes - probs * pushes.sum()
        change += binom.pmf(n, group_size, rare) * np.expm1(step_size * (update[0] - update[1])) * (1 - rare) / rare
    return change


@pytest.mark.parametrize(
    ("rewards", "weights"), [((4.0, 1.0), count_weights(5)), ((2.0, 1.5), np.array([5.0, 4.0, 1.0, 0.5]))]
)
def test_below_the_largest_surviving_step_rarity_shrinks(rewards, weights):
    largest = step_sizes.largest_surviving_step(rewards, weights)
    assert mean_change_of_rarity(rewards, weights, 0.999 * largest, 1e-7) < 0
    assert mean_change_of_rarity(rewards, weights, 1.001 * largest, 1e-7) > 0


def test_a_group_too_small_loses_the_outcome_at_every_step():
    for group_size in (2, 4):
        assert step_sizes.largest_surviving_step((4.0, 1.0), count_weights(group_size)) == 0.0
