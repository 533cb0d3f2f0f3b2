"""Rewards corrected for a noisy verifier: expectations over all groups and all of the verifier's errors."""

import jax.numpy as jnp
import numpy as np
import pytest
from bandit_means import advantages_of
from groups import assert_close, random_rollouts

from ipsrl.objectives import make
from ipsrl.objectives.shaping.verifier_noise import BackwardCorrection, ForwardCorrection

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


@pytest.mark.parametrize(
    "text",
    [
        "backward_correction(standardise=True)",
        "backward_correction(false_positive_rate=0.1, false_negative_rate=0.05, standardise=True)",
        "forward_correction(standardise=True)",
        "forward_correction(false_negative_rate=0.05, standardise=True)",
    ],
)
def test_a_standard_deviation_undoes_every_correction(text):
    rollouts, _ = random_rollouts(2, prompts=16, group=6)
    assert_close(advantages_of(text, rollouts), advantages_of("grpo", rollouts))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("backward_correction(false_positive_rate=0.7)", "0.7 and false_negative_rate 0.3 leave no signal: "),
        ("backward_correction(false_negative_rate=-0.1)", "false_negative_rate is -0.1, it must be at least 0 "),
        ("backward_correction(false_positive_rate=1.0)", "false_positive_rate is 1.0, it must be at least 0 "),
        ("forward_correction(false_negative_rate=1.0)", "false_negative_rate is 1.0, it must be at least 0 "),
    ],
)
def test_bad_rates_are_refused_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=message) as error:
        make(text)
    assert "\n" not in str(error.value)
