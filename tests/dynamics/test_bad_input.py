"""Bad input that the theory of two and more outcomes refuses."""

import numpy as np
import pytest

from ipsrl.dynamics.softmax import flows, survival
from ipsrl.dynamics.softmax.finite_groups import count_weights, expected_weight, mean_field

TWO, FIVE = (4.0, 1.0), np.array([5.0, 4.0, 3.0, 2.0, 1.0])
PROBS, REWARDS = np.array([0.4, 0.3, 0.3]), np.array([4.0, 1.0, 2.0])
WEIGHTS = count_weights(8)

REFUSED = [
    # Finite groups.
    ("at least 2", lambda: mean_field(PROBS, REWARDS, count_weights(1), "group mean and std")),
    ("sum to 1", lambda: mean_field(PROBS * 2, REWARDS, WEIGHTS, "no baseline")),
    ("must both be", lambda: mean_field(PROBS, REWARDS[:2], WEIGHTS, "no baseline")),
    ("one weight for each count", lambda: mean_field(PROBS, REWARDS, np.ones((4, 1)), "no baseline")),
    ("too many", lambda: mean_field(np.full(40, 1 / 40), np.ones(40), count_weights(16), "group mean and std")),
    ("probability must lie between 0 and 1", lambda: expected_weight(1.5, WEIGHTS)),
    ("above -1", lambda: count_weights(4, pseudo_count=-1.0)),
    # Flows.
    ("alpha", lambda: flows.flow_velocity(np.zeros(2), np.ones(2), -1.0)),
    # Survival.
    ("at least 1", lambda: survival.critical_alpha(0.5, 8, "no baseline")),
    ("alpha is 0", lambda: survival.smallest_group(2.0, "no baseline", alpha=0.0)),
    ("positive", lambda: survival.stationary_distribution(np.array([1.0, 0.0]), WEIGHTS, "no baseline")),
    ("all weigh the same", lambda: survival.stationary_distribution(np.array(TWO), count_weights(2), "group mean")),
    ("only for two outcomes", lambda: survival.stationary_distribution(FIVE, WEIGHTS, "group mean and std")),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_bad_input_is_refused(message, call):
    with pytest.raises(ValueError, match=message):
        call()
