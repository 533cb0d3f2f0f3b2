import numpy as np
import pytest

from experiments.compare.training import proportional_reward


def test_it_is_a_share_of_the_best_possible_reward():
    # Probabilities 0.4, 0.4, 0.2, 0.
    assert proportional_reward(np.array([[2.0, 2.0, 1.0, 0.0]])) == pytest.approx(0.9)


@pytest.mark.parametrize("rewards", [[[1.0, -1.0]], [[1.0, 0.5], [0.0, 0.0]]])
def test_nothing_is_in_proportion_to_rewards_that_are_negative_or_all_zero(rewards):
    with pytest.raises(ValueError, match="need non-negative rewards, and a positive one"):
        proportional_reward(rewards)
