import numpy as np
import pytest

from experiments.thought_switching.underthinking import underthinking


def test_a_score_by_hand():
    """Wrong: 3 of 12 tokens to a correct thought, none, and all 5 of 5; right: 2 of 8."""
    found = underthinking(
        np.array([[3, 0], [5, 2]]), np.array([[12, 7], [5, 8]]), np.array([[False, False], [False, True]])
    )
    assert found == pytest.approx({"underthinking": 0.75 / 3, "weighted_underthinking": 0.75 / 4, "promising": 2 / 3})


def test_without_wrong_answers_or_tokens_it_is_zero():
    nothing = {"underthinking": 0, "weighted_underthinking": 0, "promising": 0}
    for first_correct, tokens, right in ((3, 12, True), (0, 0, False)):
        assert underthinking(np.array([first_correct]), np.array([tokens]), np.array([right])) == nothing
