"""Weights of correct and of wrong answers by hand: a constant in them is no part of a mean update."""

import jax.numpy as jnp

from ipsrl.objectives.catalog.noisy_verifiers import BackwardCorrection
from tests.objectives.groups import advantages_of, assert_close, rewarded


def test_correct_and_wrong_answers_have_weights_of_their_own():
    group = rewarded([[1, 0, 0.5]])
    assert_close(advantages_of("w_reinforce", group), [[0.1, -1.0, -0.45]])
    assert_close(advantages_of("forward_correction(false_negative_rate=0.3)", group), [[0.3, -0.7, -0.2]])


def test_the_mean_of_a_corrected_reward_over_the_errors_of_a_verifier_is_the_reward():
    """1.6 and -0.4: on average 1 where 0.7 of the right answers are accepted, and 0 where 0.2 of the wrong ones are."""
    assert_close(BackwardCorrection(0.2, 0.3)(jnp.array([[1.0, 0.0]]), None), [[1.6, -0.4]])
