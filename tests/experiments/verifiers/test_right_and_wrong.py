import numpy as np
import pytest

from experiments.verifiers.right_and_wrong import measures, policy, vanishes
from ipsrl.records.tidy import Records
from ipsrl.study.claims import decided


def test_a_policy_has_the_accuracy_and_the_share_of_the_hack():
    probs = np.exp(policy(0.2, hack=0.5))
    np.testing.assert_allclose(probs, [0.1, 0.06, 0.04, 0.4, 0.2, 0.2])


def test_right_outcomes_are_counted_where_accuracy_first_is_high():
    even, one = [0.3, 0.3, 0.3, 0.1, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    low = [0.1, 0.1, 0.1, 0.7, 0.0, 0.0]
    found = measures(np.array([[low, even, one], [low, low, low]]))
    np.testing.assert_allclose(found["accuracy"], [[0.3, 0.9, 1.0], [0.3] * 3], rtol=1e-6)
    np.testing.assert_allclose(found["effective"], [[3, 3, 1], [3, 3, 3]], rtol=1e-6)
    assert found["effective_at_equal"][0] == pytest.approx([3, 3, 3])
    assert np.isnan(found["effective_at_equal"][1]).all()


def test_a_distance_vanishes_if_it_does_at_every_policy():
    def verdict(*turned):
        rows = [{"kind": "exact", "arm": "backward", "turned": value, "step": 0} for value in turned]
        return decided({"": vanishes("turned", arm="backward")}, Records(rows, ("kind", "arm")))[""]

    assert verdict(0.0, 1e-9) is True
    assert verdict(0.0, 0.1) is False
    assert verdict() is None
