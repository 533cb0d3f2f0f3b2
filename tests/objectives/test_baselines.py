import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.groups import advantages_of, assert_close, rollouts_of, weighed_in_turn


def groups(rewards, prompts, lengths=None):
    rewards = np.float32(rewards)
    lengths = np.ones(rewards.shape, int) if lengths is None else np.array(lengths)
    mask = np.arange(lengths.max()) < lengths[..., None]
    rollouts = rollouts_of(np.zeros(mask.shape), mask, rewards=rewards)
    return dataclasses.replace(rollouts, prompt_index=jnp.array(prompts))


def whitened(values):
    values = np.array(values, float)
    return (values - values.mean()) / values.std()


def test_answers_are_compared_with_earlier_ones():
    batches = [groups([[1, 0], [0, 0]], [0, 2]), groups([[1, 1], [1, 0]], [0, 1]), groups([[0, 1], [1, 0]], [0, 2])]
    # Both prompts are new; then v is 1/2 of prompt 0, and prompt 1 is new; then N = 2 / 2 + 2, S = 1 / 2 + 2, and
    # prompt 2, which was not in the last batch, has v = 0.
    expected = [[0.5, -0.5], [0, 0]], [[0.5, 0.5], [0.5, -0.5]], [[-5 / 6, 1 / 6], [1, 0]]
    for number, values in enumerate(expected, start=1):
        assert_close(weighed_in_turn("spo(decay=0.5)", batches[:number], num_prompts=3)[0], whitened(values))


def test_groups_of_a_prompt_have_one_value():
    found, state, _ = weighed_in_turn("spo", [groups([[1, 0], [1, 1], [0, 0]], [0, 0, 1])], num_prompts=2)
    assert_close(found, whitened([[0.25, -0.75], [0.25, 0.25], [0, 0]]))
    assert_close(state[0], [[4, 3], [2, 0]])


def test_rewards_whose_squares_are_too_small_for_a_float_say_nothing():
    assert not advantages_of("spo", groups([[1e-25, 0], [0, 0]], [0, 1])).any()


def test_single_answers_teach_from_the_second_batch_on():
    batches = [groups([[1], [0]], [0, 1]), groups([[0], [0]], [0, 1])]
    assert not weighed_in_turn("spo", batches[:1], num_prompts=2)[0].any()
    assert_close(weighed_in_turn("spo", batches, num_prompts=2)[0], [[-1], [1]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Lengths 1, 2, 2, 4: the two shortest, and the one that is as short as the second.
        ("gfpo", [2**0.5, -(0.5**0.5), -(0.5**0.5), 0]),
        ("gfpo(kept=0.25)", [0, 0, 0, 0]),
        ("gfpo(kept=1.0)", [1, -1, -1, 1]),
        # Rewards for each token: 1, 0, 0, 1/4.
        ("gfpo(by=reward_per_token)", [0, 0, 0, 0]),
        ("gfpo(kept=0.7, by=reward_per_token)", [1, -1, -1, 1]),
    ],
)
def test_only_kept_answers_are_compared(text, expected):
    """Answers without tokens are none of them, though they are the shortest."""
    assert_close(advantages_of(text, groups([[1, 0, 0, 1]], [0], [[1, 2, 2, 4]])), [expected])
    longer = groups([[1, 0, 0, 1, 0, 0, 0]], [0], [[1, 2, 2, 4, 0, 0, 0]])
    assert_close(advantages_of(text, longer), [[*expected, 0, 0, 0]])


def test_a_share_of_the_answers_is_kept_without_rounding_up():
    """Seven of 25, 0.28 * 25 is above 7 in floating point; 0.9 / 3 for each token is as good as 0.3."""
    found = advantages_of("gfpo(kept=0.28)", groups([np.arange(25) % 2], [0], [np.arange(1, 26)]))
    assert found.any(axis=0).tolist() == [True] * 7 + [False] * 18
    assert np.float32(0.9) / np.float32(3) != np.float32(0.3)
    tied = groups([[0.9, 0.3, 0.2, 0.0]], [0], [[3, 1, 1, 1]])
    assert_close(advantages_of("gfpo(kept=0.25, by=reward_per_token)", tied), [[1, -1, 0, 0]])
