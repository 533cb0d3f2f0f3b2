import numpy as np
import pytest
from scipy.stats import binom

from experiments.recovery_time import step_sizes
from ipsrl.dynamics.softmax.finite_groups import count_weights


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
