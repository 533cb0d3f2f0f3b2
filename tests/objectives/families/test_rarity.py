"""Objectives that pay for rare outcomes, by numbers and identities derived by hand."""

import numpy as np
import pytest

from tests.objectives.groups import advantages_of, assert_close, rewarded, weighed_in_turn


def test_rare_outcomes_earn_more():
    """Frequencies 1/2, 1/2, 1/4, 1/4."""
    group, half = rewarded([[0, 0, 0, 0]], outcome_id=[[5, 5, 3, -1]]), np.log(2) / 2
    assert_close(advantages_of("answer_entropy(beta=1.0)", group), [[-half, -half, half, half]])
    assert_close(advantages_of("answer_entropy(beta=1.0, form=gini)", group), [[-1 / 8, -1 / 8, 1 / 8, 1 / 8]])


@pytest.mark.parametrize(
    ("bonus", "expected"), [("ucb", [1, 1 / 3**0.5]), ("ucb_con", [0.5, 1 / 3**0.5 - 0.5]), ("ucb_mean", None)]
)
def test_outcomes_of_earlier_batches_count(bonus, expected):
    """In the second batch the prompt's outcome 0 was seen three times and no valid outcome once; outcome 1 is new."""
    batches = [
        rewarded([[1, 1, 1, 1]], outcome_id=[outcomes], prompt_index=[2]) for outcomes in ([0, 0, 0, -1], [1, 0, 0, -1])
    ]
    text = f"outcome_exploration(weight=1.0, bonus={bonus})"
    (found,), state, _ = weighed_in_turn(text, batches, num_prompts=3, num_outcomes=2)
    once, often = expected or (1 - (2 + 2 / 3**0.5) / 4, 1 / 3**0.5 - (2 + 2 / 3**0.5) / 4)
    assert_close(found, [once, often, often, once])
    table = next(part for part in state if not isinstance(part, tuple))
    np.testing.assert_array_equal(table, [[0, 0, 0], [0, 0, 0], [5, 1, 2]])
