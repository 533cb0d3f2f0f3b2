import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.advantages import LeaveOneOut
from ipsrl.objectives.catalog.baselines import LengthWeightedMean
from ipsrl.objectives.catalog.expected_return import OverlongPunishment
from ipsrl.objectives.catalog.whole_batch import GroupMeanBatchStd, GroupMeanByNonzero, WhitenedTokens
from ipsrl.structures import Sizes
from tests.objectives.groups import (
    advantages_of,
    assert_close,
    of_lengths,
    random_rollouts,
    rewarded,
    rollouts_of,
    token_advantages,
    weighed_in_turn,
)

TWO_GROUPS = np.array([[1.0, 0, 0, 1], [1, 1, 1, 0]])


def test_the_deviation_is_that_of_the_batch():
    rewards = np.array([[1.0, 0.0, 0.5, 0.5], [1.0, 2.0, 1.5, 1.5]])
    for unbiased in (False, True):
        actual = GroupMeanBatchStd(unbiased)(jnp.array(rewards), rollouts_of(np.zeros((2, 4, 1))))
        assert_close(actual, (rewards - rewards.mean(axis=1, keepdims=True)) / rewards.std(ddof=1 if unbiased else 0))


@pytest.mark.parametrize(
    "part",
    [
        GroupMeanBatchStd(),
        GroupMeanBatchStd(unbiased=True),
        GroupMeanByNonzero(),
        LeaveOneOut(),
        LengthWeightedMean(),
    ],
)
def test_equal_rewards_get_zero_beside_groups_that_differ(part):
    rewards = jnp.array([[0.1] * 7, [0.1] * 6 + [0.7], [0.0] * 7])
    actual = part(rewards, rollouts_of(np.zeros((3, 7, 1))))
    assert not actual[0].any()
    assert not actual[2].any()
    assert actual[1].all()


def test_returns_are_whitened_over_all_tokens():
    rollouts, _ = random_rollouts(0, prompts=4, group=5, length=6)
    mask, returns = np.asarray(rollouts.token_mask), np.zeros((4, 5, 6))
    divergence = np.float64(rollouts.behaviour_log_probs) - np.float64(rollouts.reference_log_probs)
    for p, g in np.ndindex(4, 5):
        last, total = mask[p, g].sum() - 1, 0.0
        for t in range(last, -1, -1):
            total = 0.9 * total + (rollouts.rewards[p, g] if t == last else 0.0) - 0.05 * divergence[p, g, t]
            returns[p, g, t] = total
    actual = np.asarray(token_advantages("reinforce_plus_plus(gamma=0.9, kl=0.05)", rollouts))
    assert_close(actual[mask], (returns[mask] - returns[mask].mean()) / returns[mask].std())


def test_one_token_is_white_as_it_is():
    assert not WhitenedTokens(unbiased=True)(jnp.full((1, 1, 1), 0.1), rollouts_of(np.zeros((1, 1, 1)))).any()


@pytest.mark.parametrize(
    ("part", "beyond"),
    [
        (OverlongPunishment(limit=20480, cache=4096), -1.0),
        (OverlongPunishment(limit=20480), -1.0),
        (OverlongPunishment(limit=20480, cache=4096, form="verl"), -4097 / 4096),
        (OverlongPunishment(weight=0.5, limit=20480, form="verl"), -4097 / 8192),
    ],
)
def test_overlong_punishment(part, beyond):
    rollouts = of_lengths([1, 16384, 18432, 20480, 20481])
    actual = part(jnp.array([[1.0, 1, 0, 0, 0]]), rollouts)
    np.testing.assert_allclose(actual, [[1, 1, -0.5 * part.weight, -part.weight, beyond]], rtol=2e-7)


@pytest.mark.parametrize("text", ["dapo(overlong=paper(cache=6))", "dapo(overlong=paper(cache=64))"])
def test_a_cache_longer_than_the_longest_answer_is_refused(text):
    """An answer of no tokens at all would be punished."""
    with pytest.raises(ValueError, match=r"the overlong cache of \d+ tokens is longer than the limit of 5"):
        token_advantages(text, of_lengths([1, 5]))
    assert token_advantages("dapo(overlong=paper(cache=5))", of_lengths([1, 5])).any()


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "sequence_sum", "constant_length"])
def test_a_loss_without_truncated_answers_is_that_of_the_others(aggregation):
    """Truncated answers count as if they had no tokens, given the advantages of the whole group."""
    rollouts, scores = random_rollouts(3)
    assert 0 < rollouts.truncated.sum() < rollouts.truncated.size
    plain, filtered = (
        make(f"dapo(overlong=0, overlong_filter={on}, aggregation={aggregation})") for on in (False, True)
    )
    weights, _, _ = plain.weigh(rollouts, plain.init(Sizes(3)))
    others = dataclasses.replace(rollouts, token_mask=rollouts.token_mask & ~rollouts.truncated[..., None])
    expected, actual = plain.loss(scores, others, weights), filtered(scores, rollouts)
    assert_close(actual.loss_sum / actual.count, expected.loss_sum / expected.count)


def test_where_all_answers_are_truncated_nothing_is_left():
    rollouts = rollouts_of(np.zeros((1, 4, 2)), rewards=TWO_GROUPS[1:], truncated=np.ones((1, 4), bool))
    assert not token_advantages("dapo(overlong_filter=True)", rollouts).any()


def test_groups_without_reward_make_the_others_weigh_more():
    """GPG: 2 of 8 rewards are not 0."""
    rollouts = rewarded([[1, 0, 0.5, 0], [0, 0, 0, 0]])
    assert_close(advantages_of("gpg", rollouts), [np.array([5, -3, 1, -3]) / 8 * 4, [0, 0, 0, 0]])


def smoothed(groups):
    """`[G]`, the advantages of the last of a prompt's groups."""
    batches = [rewarded([rewards], prompt_index=[1]) for rewards in groups]
    return weighed_in_turn("dcpo", batches, num_prompts=2)[0][0]


def test_smoothed_advantages_remember_earlier_groups():
    """Moments of all eight rewards after 1, 0, 0, 0: mean 1/2 and std 1/2 with 1, 1, 1, 0; mean 5/8 with 1, 1, 1, 1."""
    assert_close(smoothed([[1, 0, 0, 0]]), advantages_of("grpo", rewarded([[1, 0, 0, 0]]))[0])
    of_group = np.array([1, 1, 1, -3]) / 3**0.5
    assert_close(smoothed([[1, 0, 0, 0], [1, 1, 1, 0]]), (of_group + np.array([1, 1, 1, -1])) / 2)
    alone = (3 / 8) / (15**0.5 / 8)
    assert_close(smoothed([[1, 0, 0, 0], [1, 1, 1, 1]]), np.full(4, alone / 2))
    # Of two mixtures the smaller: with weights 1/3 and 2/3.
    groups = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    of_all = (groups[2] - groups.mean()) / groups.std()
    smaller = [min((2 * a + b) / 3, (a + 2 * b) / 3, key=abs) for a, b in zip(of_group, of_all, strict=True)]
    assert_close(smoothed(groups), smaller)


def test_smoothed_advantages_of_rewards_that_never_change_are_exactly_zero():
    for groups in range(1, 8):
        assert not smoothed([[0.1] * 7] * groups).any()
