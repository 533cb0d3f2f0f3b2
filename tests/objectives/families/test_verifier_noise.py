"""Rewards corrected for a noisy verifier: expectations over all groups and all of the verifier's errors."""

import jax.numpy as jnp
import numpy as np

from ipsrl.objectives.catalog.regularised import BackwardCorrection, ForwardCorrection
from tests.objectives.groups import assert_close

RHO0, RHO1 = 0.2, 0.3
ACCEPTED = {True: 1 - RHO1, False: RHO0}
"""Chance that the verifier accepts a correct, and a wrong answer."""


def after_noise(part):
    """Mean of the corrected reward given a correct, and given a wrong answer."""
    accepted, rejected = np.float64(part(jnp.array([[1.0, 0.0]]), None)[0])
    return [chance * accepted + (1 - chance) * rejected for chance in (ACCEPTED[True], ACCEPTED[False])]


def test_corrections_by_hand():
    assert_close(BackwardCorrection(RHO0, RHO1)(jnp.array([[1.0, 0.0]]), None), [[1.6, -0.4]])
    assert_close(ForwardCorrection(RHO1)(jnp.array([[1.0, 0.0]]), None), [[0.3, -0.7]])
    assert_close(after_noise(BackwardCorrection(RHO0, RHO1)), [1.0, 0.0])
    assert_close(after_noise(ForwardCorrection(RHO1)), [0.0, -0.5])
