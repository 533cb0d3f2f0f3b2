"""Rewards corrected for a noisy verifier: expectations over all groups and all of the verifier's errors."""

import jax.numpy as jnp
import numpy as np
import pytest
from bandit_means import advantages_of, mean_push, pushes
from groups import all_groups, assert_close, random_rollouts, rollouts_of

from ipsrl.objectives import make
from ipsrl.objectives.verifier_noise import BackwardCorrection, ForwardCorrection

RHO0, RHO1 = 0.2, 0.3
YOUDEN = 1 - RHO0 - RHO1
ACCEPTED = {True: 1 - RHO1, False: RHO0}
"""Chance that the verifier accepts a correct, and a wrong answer."""
TRUTH = np.array([1.0, 1.0, 0.0])
LAW = np.array([0.2, 0.3, 0.5])


def after_noise(part):
    """Mean of the corrected reward given a correct, and given a wrong answer."""
    accepted, rejected = np.float64(part(jnp.array([[1.0, 0.0]]), None)[0])
    return [chance * accepted + (1 - chance) * rejected for chance in (ACCEPTED[True], ACCEPTED[False])]


def test_corrections_by_hand():
    assert_close(BackwardCorrection(RHO0, RHO1)(jnp.array([[1.0, 0.0]]), None), [[1.6, -0.4]])
    assert_close(ForwardCorrection(RHO1)(jnp.array([[1.0, 0.0]]), None), [[0.3, -0.7]])
    assert_close(after_noise(BackwardCorrection(RHO0, RHO1)), [1.0, 0.0])
    assert_close(after_noise(ForwardCorrection(RHO1)), [0.0, -0.5])


def mean_push_under_noise(text, group):
    """`[K]`, over all groups of a bandit and all verdicts on them."""
    groups, verdicts = all_groups(3, group), all_groups(2, group)
    pairs = [(g, v) for g in range(len(groups)) for v in range(len(verdicts))]
    samples = groups[[g for g, _ in pairs]]
    observed = verdicts[[v for _, v in pairs]]
    accepted = np.where(TRUTH[samples] > 0, ACCEPTED[True], ACCEPTED[False])
    chances = (LAW[samples] * np.where(observed, accepted, 1 - accepted)).prod(axis=-1)
    assert chances.sum() == pytest.approx(1.0)
    rollouts = rollouts_of(np.zeros((*samples.shape, 1)), rewards=np.float32(observed), outcome_id=samples)
    return pushes(advantages_of(text, rollouts), samples, LAW, chances)


def test_the_backward_update_is_the_clean_one():
    clean = mean_push("dr_grpo", LAW, TRUTH, 3)
    np.testing.assert_allclose(mean_push_under_noise("dr_grpo", 3), YOUDEN * clean, atol=1e-6)
    np.testing.assert_allclose(mean_push_under_noise("backward_correction", 3), clean, atol=1e-6)


def test_the_forward_update_is_youden_times_the_clean_one():
    flow = LAW * (TRUTH - LAW @ TRUTH)
    np.testing.assert_allclose(mean_push_under_noise("forward_correction", 2), YOUDEN * flow, atol=1e-6)


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
