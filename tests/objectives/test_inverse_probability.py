import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.inverse_probability import InverseProbability
from ipsrl.structures import Sizes
from tests.objectives.groups import assert_close, random_rollouts, rollouts_of, token_advantages


def coin(*rewards, **fields):
    """Groups of one-token answers of probability 1/2, so that w = 2 r."""
    shape = np.shape(rewards)
    return rollouts_of(np.full((*shape, 1), np.log(0.5)), rewards=rewards, log_backward=np.zeros(shape), **fields)


def test_running_mean_of_inverse_probability():
    part = InverseProbability(decay=0.9)

    def step(rollouts, state):
        return part.update_state(rollouts.rewards, rollouts, state)

    shaped, state = step(coin([1.0, 3.0]), part.init(Sizes(1)))  # w = 2, 6: the first batch sets the mean, 4
    assert_close(shaped, [[0.5, 1.5]])
    assert_close(np.exp(state), [4.0])
    shaped, state = step(coin([0.0, 1.0]), state)  # w = 0, 2: 0.9 * 4 + 0.1 * 1
    assert shaped[0, 0] == 0.0
    assert_close(shaped, [[0.0, 2 / 3.7]])
    assert_close(np.exp(state), [3.7])
    shaped, unmoved = step(coin([0.0, 0.0]), state)
    assert not shaped.any()
    assert (unmoved == state).all()
    shaped, fresh = step(coin([0.0, 0.0]), part.init(Sizes(1)))
    assert not shaped.any()
    assert (fresh == part.init(Sizes(1))).all()


def test_negative_rewards_count_as_none():
    """They give exactly zero, and leave the running mean as rewards of zero do; all the others are as before."""
    part, log_half = InverseProbability(), np.log(0.5)
    wrong = rollouts_of(
        np.full((2, 4, 1), log_half), rewards=[[1.0, -1.0, 2.0, -0.5], [-1.0] * 4], log_backward=np.zeros((2, 4))
    )
    without = dataclasses.replace(wrong, rewards=jnp.maximum(wrong.rewards, 0.0))
    shaped, state = part.update_state(wrong.rewards, wrong, part.init(Sizes(2)))
    expected, expected_state = part.update_state(without.rewards, without, part.init(Sizes(2)))
    np.testing.assert_array_equal(shaped, expected)
    np.testing.assert_array_equal(state, expected_state)
    assert_close(shaped, [[4 / 3, 0.0, 8 / 3, 0.0], [0.0] * 4])
    assert np.isneginf(state[1])


def test_each_prompt_has_its_own_mean_and_its_groups_share_it():
    part = InverseProbability()
    rollouts = coin([1.0, 3.0], [1.0, 1.0], [0.5, 0.0])
    shaped, state = part.update_state(
        rollouts.rewards, dataclasses.replace(rollouts, prompt_index=jnp.array([2, 0, 2])), part.init(Sizes(3))
    )
    mean = (2 + 6 + 1 + 0) / 4
    assert_close(shaped, [[2 / mean, 6 / mean], [1.0, 1.0], [1 / mean, 0.0]])
    assert_close(np.exp(state), [2.0, 0.0, mean])


def test_caps_of_inverse_probability():
    capped, _ = InverseProbability(log_ratio_cap=0.2).update_state(
        jnp.array([[1.0, 3.0]]), coin([1.0, 3.0]), jnp.zeros(1)
    )
    assert_close(capped, [[np.exp(0.2), np.exp(0.2)]])
    part = InverseProbability()
    unlikely = rollouts_of([[[-64.0], [0.0]]], log_backward=np.zeros((1, 2)))
    shaped, state = part.update_state(unlikely.rewards, unlikely, part.init(Sizes(1)))
    assert_close(shaped, [[2.0, np.exp(-20.0)]])
    assert_close(state, [64.0 - np.log(2.0)])
    with pytest.raises(TypeError, match="InverseProbability carries state: call update_state"):
        part(unlikely.rewards, unlikely)


@pytest.mark.parametrize(
    ("text", "largest"),
    [
        ("ips_reinforce(probability=exact)", 10.0),
        ("ips_reinforce(probability=exact(advantage_cap=1000.0))", 200.0),
        ("ips_grpo(probability=exact)", 10.0),
        ("ips_dr_grpo(probability=exact)", 10.0),
        ("ips_grpo", 199**0.5),
        ("ips_dr_grpo", 199.0),
    ],
)
def test_exact_probabilities_come_with_a_cap_on_advantages(text, largest):
    """One success among 200: w / mean = 200, (w - mean) / mean = 199 and (w - mean) / std = sqrt(199) without a cap."""
    success = np.arange(200) == 0
    rollouts = coin(np.float32(success), outcome_id=np.int32(success)[None])
    assert_close(token_advantages(text, rollouts)[0, 0], [largest])


def test_a_batch_on_its_own_may_number_its_prompts_as_it_likes():
    rollouts, scores = random_rollouts()
    objective = make("ips_grpo(probability=exact)")
    elsewhere = dataclasses.replace(rollouts, prompt_index=jnp.array([1000, 7, 7]))
    assert objective(scores, elsewhere).loss_sum == objective(scores, rollouts).loss_sum
