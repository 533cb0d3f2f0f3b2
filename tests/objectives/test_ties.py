"""Computed numbers that are equal but for rounding count as equal, where being larger by a bit would make a choice."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.preferences import beats
from ipsrl.objectives.catalog.refinements import DistinctPairs
from ipsrl.objectives.catalog.regularised import ModeAnchor
from ipsrl.structures import Sizes
from tests.objectives.groups import advantages_of, of_lengths, rewarded, rollouts_of, weighed_in_turn

ALMOST = np.float32(0.3) * np.float32(3)
"""0.90000004, where 0.9 is 0.9."""


def test_means_of_equal_tokens_are_equally_likely():
    """The mean of seven times -0.7 is not -0.7 in float32."""
    assert not advantages_of("unlikeliness", of_lengths([1, 7], -0.7)).any()


def test_equally_good_answers_are_anchored_together():
    """Rewards of 3 * 0.3 and 0.9 are both the group's best; the reference likes the first by one nat."""
    rewards, reference = np.float32([[ALMOST, 0.9, 0.5]]), np.float32([[[-2.0], [-3.0], [-1.0]]])
    group = rewarded(rewards, reference_log_probs=reference)
    np.testing.assert_allclose(ModeAnchor(1.0)(group.rewards, group), [[0.9, 1.9, 0.5]], rtol=1e-6)


def test_of_equally_liked_answers_the_best_is_the_anchor():
    """The reference gives one token e^-0.7, or seven e^-0.1: which sum is larger decides nothing."""
    reference = np.float32(np.where(np.arange(7) < 1, [[-0.7], [-0.1]], [[0.0], [-0.1]]))[None]
    for rewards in ([0.9, 0.6], [0.6, 0.9]):
        group = of_lengths([1, 7], -0.7, rewards=np.float32([rewards]), reference_log_probs=reference)
        np.testing.assert_allclose(ModeAnchor(1.0, 0.5)(group.rewards, group), [[0.9, 0.9]], rtol=1e-6)


def test_rewards_that_differ_by_rounding_form_no_pair():
    rewards = np.float32([[ALMOST, 0.9, 0.5]])
    pairs = np.asarray(beats(rewarded(rewards)))[0]
    assert pairs.tolist() == [[False, False, True], [False, False, True], [False, False, False]]


def test_a_distinctiveness_of_exactly_tau_is_enough():
    """One token of three is shared with the answer of the other sign, and 1 - 1/3 is below 2/3 in float32."""
    tokens = np.array([[[1, 2, 3], [1, 4, 5]]])
    group = rollouts_of(np.zeros((1, 2, 3)), rewards=np.float32([[1, 0]]), tokens=tokens)
    assert DistinctPairs(tau=2 / 3)(group.rewards, group).any()


@pytest.mark.parametrize("text", ["tsallis(q=0.5)", "tsallis(q=1.0)", "tsallis(q=3.0)"])
def test_answers_of_equal_probability_have_equal_bonuses(text):
    """Without a reward there is nothing beside which a difference of rounding would be small."""
    assert not advantages_of(text, of_lengths([1, 3, 7], [[-2.1], [-0.7], [-0.3]], rewards=np.zeros((1, 3)))).any()


@pytest.mark.parametrize("text", ["maxrl", "maxrl(centred=False)", "garl(q=0.5)", "mode_replay"])
def test_a_mean_of_rounding_is_not_positive(text):
    """0.1 + 0.6 - 0.7 would divide."""
    rewards = np.float32([[0.1, 0.6, -0.7]])
    assert rewards.mean() > 0
    group = rewarded(rewards, off_policy=np.zeros((1, 3), bool))
    assert not advantages_of(text, group).any()


def test_tokens_of_equal_probability_have_no_covariance():
    objective, group = make("kl_cov(fraction=1.0)"), of_lengths([1, 7, 5], -0.7, rewards=np.float32([[1, 0, 0]]))
    weights, _, _ = objective.weigh(group, objective.init(Sizes(1)))
    assert not weights.coefficients[0].any()


@pytest.mark.parametrize(
    ("text", "rewards", "fields"),
    [
        ("top_one", [ALMOST, 0.9, 0.5], {}),
        ("darling(verifiable=False, standardise=True)", [-ALMOST, -0.9, -ALMOST], {"outcome_id": np.arange(3)[None]}),
    ],
)
def test_rewards_that_differ_by_rounding_say_nothing(text, rewards, fields):
    assert not advantages_of(text, rewarded([rewards], **fields)).any()


def test_of_two_answers_the_worse_changes_nothing_where_each_set_has_a_best_one():
    """Sets of two of which one answer is worse: the best of all of them is the same, and not by rounding alone."""
    parts = np.full((1, 8, 2), 0.7, np.float32)
    parts[0, 7] = 0
    assert not advantages_of("vector_po", rollouts_of(np.zeros((1, 8, 1)), reward_parts=parts)).any()


@pytest.mark.parametrize(("text", "right"), [("rs_grpo", [0.25, 0.25, -0.5]), ("rs_grpo(beta=0.5)", [1, 1, -2])])
def test_large_rewards_that_differ_by_rounding_share_the_utility(text, right):
    """3e9 and its neighbour in float32, which is 256 above."""
    rewards = np.float32([[3e9, np.nextafter(np.float32(3e9), np.float32(4e9)), 0]])
    np.testing.assert_allclose(advantages_of(text, rewarded(rewards)), [right], rtol=1e-6)


def test_a_prompt_whose_rewards_change_by_rounding_alone_has_no_deviation():
    """The second of two batches would otherwise be divided by the rounding between them."""
    batches = [rewarded([[reward] * 4]) for reward in (0.9, np.float32(0.9) + np.float32(4e-7))]
    assert not weighed_in_turn("dcpo", batches, num_prompts=1)[0].any()


def test_an_entropy_that_changes_by_rounding_alone_is_at_its_target():
    """The mean of seven times 0.9 is not 0.9 in float32: a sign would be a step of alpha."""
    objective = make("aer(tau=1.0, eta=0.01)")
    state = objective.init(Sizes(1))
    for lengths in ([1, 1], [1, 6], [2, 1]):
        group = of_lengths(lengths, -0.7)
        entropy = jnp.where(group.token_mask, 0.9, 0.0)
        _, state, metrics = objective.weigh(dataclasses.replace(group, behaviour_entropy=entropy), state)
        assert metrics["entropy_alpha"][0] == 0


def test_a_reward_that_is_a_threshold_but_for_rounding_reaches_it():
    rewards, reference = np.float32([[1, 0.1 * 3 - 1e-8, 0]]), np.float32([[[-1.0], [-2.0], [-1.0]]])
    assert rewards[0, 1] < np.float32(0.1) * np.float32(3)
    group = rewarded(rewards, reference_log_probs=reference)
    threshold = float(np.float32(0.1) * np.float32(3))
    np.testing.assert_allclose(ModeAnchor(1.0, threshold)(group.rewards, group), [[1, 2, 0]])
