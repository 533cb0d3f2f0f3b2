"""Weights of correct and of wrong answers by hand: a constant in them is no part of a mean update."""

import numpy as np

from tests.objectives.groups import advantages_of, assert_close, rollouts_of


def test_correct_and_wrong_answers_have_weights_of_their_own():
    group = rollouts_of(np.zeros((1, 3, 1)), rewards=np.float32([[1, 0, 0.5]]))
    assert_close(advantages_of("w_reinforce", group), [[0.1, -1.0, -0.45]])
    assert_close(advantages_of("forward_correction(false_negative_rate=0.3)", group), [[0.3, -0.7, -0.2]])
