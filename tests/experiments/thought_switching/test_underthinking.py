"""The underthinking score."""

import numpy as np
import pytest

from experiments.thought_switching.underthinking import underthinking


def test_a_score_by_hand():
    """Wrong: 3 of 12 tokens to a correct thought, none, and all 5 of 5; right: 2 of 8."""
    found = underthinking(
        np.array([[3, 0], [5, 2]]), np.array([[12, 7], [5, 8]]), np.array([[False, False], [False, True]])
    )
    assert found == pytest.approx({"score": 0.75 / 3, "weighted": 0.75 / 4, "promising": 2 / 3})


def test_without_wrong_answers_or_tokens_it_is_zero():
    nothing = {"score": 0, "weighted": 0, "promising": 0}
    assert underthinking([3], [12], [True]) == nothing
    assert underthinking([0], [0], [False]) == nothing


def test_bad_input():
    with pytest.raises(
        ValueError, match=r"first_correct \(2,\), tokens \(1,\) and right \(1,\) must have the same shape"
    ):
        underthinking([1, 2], [3], [True])
    with pytest.raises(ValueError, match="with one answer or more"):
        underthinking([], [], [])
    with pytest.raises(ValueError, match="first_correct must lie between 0 and the number of tokens"):
        underthinking([4], [3], [False])
