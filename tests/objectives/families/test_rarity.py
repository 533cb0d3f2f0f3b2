"""Objectives that pay for rare outcomes, by numbers and identities derived by hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.structures import Sizes
from tests.objectives.groups import advantages_of, assert_close, rollouts_of


def one_group(rewards, outcomes):
    return rollouts_of(np.zeros((1, len(rewards), 1)), rewards=np.float32([rewards]), outcome_id=np.int32([outcomes]))


def test_rare_outcomes_earn_more():
    """Frequencies 1/2, 1/2, 1/4, 1/4."""
    group, half = one_group([0, 0, 0, 0], [5, 5, 3, -1]), np.log(2) / 2
    assert_close(advantages_of("answer_entropy(beta=1.0)", group), [[-half, -half, half, half]])
    assert_close(advantages_of("answer_entropy(beta=1.0, form=gini)", group), [[-1 / 8, -1 / 8, 1 / 8, 1 / 8]])


@pytest.mark.parametrize(
    ("bonus", "expected"), [("ucb", [1, 1 / 3**0.5]), ("ucb_con", [0.5, 1 / 3**0.5 - 0.5]), ("ucb_mean", None)]
)
def test_outcomes_of_earlier_batches_count(bonus, expected):
    """In the second batch the prompt's outcome 0 was seen three times and no valid outcome once; outcome 1 is new."""
    objective = make(f"outcome_exploration(weight=1.0, bonus={bonus})")
    batches = [one_group([1, 1, 1, 1], outcomes) for outcomes in ([0, 0, 0, -1], [1, 0, 0, -1])]
    state = objective.init(Sizes(num_prompts=3, num_outcomes=2))
    for batch in batches:
        weights, state, _ = objective.weigh(dataclasses.replace(batch, prompt_index=jnp.array([2])), state)
    found = np.asarray(weights.advantages[0, :, 0])
    once, often = expected or (1 - (2 + 2 / 3**0.5) / 4, 1 / 3**0.5 - (2 + 2 / 3**0.5) / 4)
    assert_close(found, [once, often, often, once])
    table = next(part for part in state if not isinstance(part, tuple))
    np.testing.assert_array_equal(table, [[0, 0, 0], [0, 0, 0], [5, 1, 2]])


def test_a_bonus_for_counts_needs_numbered_outcomes():
    make("outcome_exploration").init(Sizes(3))
    with pytest.raises(ValueError, match="this environment does not number outcomes"):
        make("outcome_exploration(bonus=ucb)").init(Sizes(3))


def test_counts_of_a_large_group_do_not_overflow():
    """M = 1024^2 + 1 alike pairs; 2 G^3 is beyond 32 bits."""
    group = one_group([1] * 1025, [0] * 1024 + [1])
    pairs, found = 1024**2 + 1, advantages_of("setpo", group)[0]
    np.testing.assert_allclose(found[-1], (pairs - 1) / 1024**2 - pairs / 1025**2, rtol=1e-6)
    np.testing.assert_allclose(found[0], (pairs - 2 * 1024 + 1) / 1024**2 - pairs / 1025**2, rtol=1e-3)
