"""Flat rows become groups, in whatever order they come."""

import numpy as np
import pytest

from ipsrl.integrations.rows import Rows, groups_of, numbered, rollouts_of
from tests.objectives.groups import random_rollouts


def test_rows_of_a_prompt_are_a_group_wherever_they_stand():
    assert groups_of(list("abba"), 2).tolist() == [[0, 3], [1, 2]]
    assert groups_of(list("aabaab"), 2).tolist() == [[0, 1], [2, 5], [3, 4]]


def test_a_group_that_is_not_whole_is_refused():
    with pytest.raises(ValueError, match="3 answers to the prompt 'a', which must be a multiple of the group size, 2"):
        groups_of(list("abaab"), 2)


def test_equal_outcomes_have_equal_numbers():
    assert numbered(["x", ("x", 1), None, "x", 7]).tolist() == [0, 1, -1, 0, 2]
    with pytest.raises(ValueError, match=r"outcome_of gave \['x'\], which cannot be hashed"):
        numbered(["x", ["x"]])


def test_groups_become_rows_and_groups_again():
    rollouts, _ = random_rollouts(prompts=3, group=4)
    rows = Rows.of(rollouts)
    again = rollouts_of(rows, np.arange(12).reshape(3, 4))
    for name in ("prompt_index", "rewards", "outcome_id", "tokens", "token_mask", "behaviour_log_probs"):
        np.testing.assert_array_equal(getattr(again, name), getattr(rollouts, name))
