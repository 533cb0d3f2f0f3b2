"""The survival limits of two outcomes, from the objectives' own code."""

import numpy as np
import pytest
from scipy.optimize import brentq

from ipsrl import objectives
from ipsrl.dynamics.two_outcome_training import advantage_weighted_frequencies

GROUP_SIZES = (2, 3, 4, 5, 6, 8, 16, 32, 64)
WITH_BASELINE = (None, 2.0000, 1.2619, 1.0000, 0.8614, 0.7124, 0.5119, 0.4037, 0.3346)
TABLE = {
    "ips_reinforce": (2.0000, 1.2619, 1.0000, 0.8614, 0.7737, 0.6667, 0.5000, 0.4000, 0.3333),
    "ips_dr_grpo": WITH_BASELINE,
    "ips_grpo": WITH_BASELINE,
}
"""The exponent alpha from which on the weaker of two outcomes survives, for rewards (4, 1)."""


def invasion(name, alpha, group_size):
    """Growth of the weaker outcome's log-ratio over its probability p, as p goes to 0.

    Groups hold it once with probability G p, and never otherwise, where (p_2 push_1 - p_1 push_2) is p push_1.
    """
    pushes = advantage_weighted_frequencies(objectives.make(f"{name}(alpha={alpha})"), (4.0, 1.0), group_size).astype(
        np.float64
    )
    return 2 * (group_size * pushes[group_size - 1, 1] - pushes[group_size, 0])


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_critical_alpha(name):
    for group_size, expected in zip(GROUP_SIZES, TABLE[name], strict=True):
        if expected is None:
            assert all(invasion(name, alpha, group_size) <= 0 for alpha in (0.5, 2.0, 8.0))
            continue
        found = brentq(lambda alpha, size=group_size: invasion(name, alpha, size), 0.1, 3.0, xtol=1e-5)
        assert found == pytest.approx(expected, abs=5e-4), group_size
