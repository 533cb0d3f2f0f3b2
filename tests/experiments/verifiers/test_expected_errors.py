import pytest

from experiments.verifiers.expected_errors import compared, drift
from ipsrl.rewards import NoisyVerifier

RIGHT = (True, False, False)
EVEN = (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_the_drift_of_a_policy_gradient_by_hand():
    # z_k moves by (2, -1, -1) / 18, p_1 by p_1 times what that is above its mean, 0.
    assert drift("dr_grpo", EVEN, RIGHT, NoisyVerifier(), 2) == pytest.approx(1 / 27)


def test_only_without_std_the_index_is_all_that_matters():
    plain, standardised = (compared(name, EVEN, RIGHT, 0.3, "false negatives", 4) for name in ("dr_grpo", "grpo"))
    for name in ("from_scaled", "from_both", "turned"):
        assert plain[name] < 1e-6
    assert plain["from_clean"] == pytest.approx(0.7, abs=1e-6)
    assert (standardised["from_grpo"], standardised["turned"]) == (0, pytest.approx(0, abs=1e-6))
    assert standardised["from_both"] > 0.03
