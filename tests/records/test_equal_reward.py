import numpy as np
import pytest

from ipsrl.records.equal_reward import at_reward


def test_the_value_is_that_at_the_first_crossing():
    rewards, values = np.array([0.5, 0.8, 1.0, 0.7, 0.95]), np.array([8.0, 6.0, 2.0, 1.0, 9.0])
    assert at_reward(rewards, values) == pytest.approx(4.0)
    assert at_reward(rewards, values, 0.4) == 8.0
    assert at_reward(rewards, values, 1.0) == 2.0
    assert np.isnan(at_reward(rewards, values, 1.1))
