import numpy as np
import pytest

from ipsrl.dynamics.verifier_errors import WAYS, distance, exact_update, verifier_of
from ipsrl.rewards import NoisyVerifier

RIGHT = (True, False, False)
EVEN = (0.0, 0.0, 0.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("youden", [-1.0, -0.4, 0.0, 0.3, 1.0])
def test_rates_have_the_index_that_was_asked_for(way, youden):
    made = verifier_of(youden, way)
    assert 1 - made.false_positive_rate - made.false_negative_rate == pytest.approx(youden)
    if youden >= 0 and way != "both":
        assert {"false negatives": made.false_positive_rate, "false positives": made.false_negative_rate}[way] == 0


@pytest.mark.slow
def test_the_update_of_a_policy_gradient_by_hand():
    # z_k moves by (G - 1) / G of p_k (r_k - E r) = (2, -1, -1) / 9.
    update = exact_update("dr_grpo", EVEN, RIGHT, NoisyVerifier(), 2)
    np.testing.assert_allclose(update, np.array([2, -1, -1]) / 9 / 2, atol=1e-9)


def test_distances_of_updates():
    across, along = np.array([0.0, 3.0]), np.array([4.0, 0.0])
    assert distance(across, along) == pytest.approx(5 / 4)
    assert distance(across, along, rescaled=True) == pytest.approx(np.sqrt(2))
    assert distance(along, along / 2) == pytest.approx(1 / 2)
    assert distance(along, along / 2, rescaled=True) == 0
    assert distance(along * 0, along, rescaled=True) == distance(along * 0, along * 0) == 0
