import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from ipsrl.objectives.catalog.diversity import (
    DistinctShare,
    EllipticalBonus,
    PermutedInverseFrequency,
    SimilarityDiscount,
)
from ipsrl.objectives.shaping import InverseFrequency
from tests.objectives.groups import advantages_of, assert_close, rewarded, rollouts_of, shaped


@pytest.mark.parametrize(
    ("part", "rewards", "outcomes", "expected"),
    [
        (DistinctShare(), [1, 1, -1, 0], [0, 1, 1, 2], [1, 1, -0.1, 0]),
        (DistinctShare(verifiable=False), [-1, 1, 2, 2], [0, 0, 1, 2], [0, 4 / 3, 3, 3]),
    ],
)
def test_distinct_share_of_rewards_below_zero(part, rewards, outcomes, expected):
    assert_close(shaped(part, rewards, outcome_id=outcomes), expected)


def test_similarity_of_token_counts():
    """Counts (2, 1) and (1, 2) of two tokens have cosine 4/5; answers without a token are like nothing else."""
    tokens = [[1, 1, 2], [2, 1, 2], [3, 9, 9], [9, 9, 9], [1, 1, 1]]
    mask = [[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    actual = shaped(SimilarityDiscount("tokens"), [1, 2, 1, 1, 0], behaviour=np.zeros((5, 3)), mask=mask, tokens=tokens)
    assert_close(actual, [1 / 1.8, 2 / 1.8, 1, 1, 0])


@pytest.mark.parametrize(("group", "width"), [(3, 8), (8, 3), (6, 5)])
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_bonus_is_that_of_an_inverse_for_each_answer(group, width, leave_one_out):
    """Inverses are in features, not in products of answers; the last two answers are alike, and far from the others."""
    features = np.random.default_rng(group).normal(size=(group, width)) + 5.0
    features[-2:] = 6.0 * features[-1]
    phi, rewards = features - features.mean(axis=0), np.arange(group) % 2
    bonus = []
    for answer in range(group):
        others = phi[np.arange(group) != answer] if leave_one_out else phi
        bonus.append(phi[answer] @ np.linalg.inv(0.2 * np.eye(width) + others.T @ others) @ phi[answer])
    part = EllipticalBonus(0.5, 0.2, leave_one_out)
    assert_close(shaped(part, rewards, answer_features=np.float32(features)), rewards + 0.5 * np.array(bonus))


def test_answers_that_are_equally_far_from_the_others_learn_from_their_rewards_alone():
    """Rounding leaves small differences between them, which a division by the standard deviation would scale to 1."""
    rng = np.random.default_rng(0)
    for copies in (1, 2, 4, 8):
        turned, _ = np.linalg.qr(rng.normal(size=(64, 8 // copies)))
        features = np.float32(rng.permutation(np.repeat(30 * turned.T, copies, axis=0)) + 7)
        for text in ("rep_exp", "rep_exp(beta=1.0, leave_one_out=True)"):
            group = rollouts_of(np.zeros((1, 8, 1)), answer_features=features[None])
            assert not advantages_of(text, group).any()
            mixed = dataclasses.replace(group, rewards=jnp.arange(8.0)[None])
            assert_close(advantages_of(text, mixed), advantages_of("grpo", mixed))
    scaled = rewarded(np.float32([[0.9, 0.6]]) / np.float32([[0.6, 0.4]]))
    assert scaled.rewards[0, 0] != scaled.rewards[0, 1]
    assert not advantages_of("rep_exp(features=outcome)", scaled).any()


def test_groups_without_a_correct_answer_get_no_bonus():
    for rewards, expected in (([0] * 4, [0] * 4), ([-1, 0, -1, 0], [0, 1, 0, 1])):
        found = shaped(EllipticalBonus(features="outcome"), rewards, outcome_id=[0, 0, 0, 1])
        np.testing.assert_array_equal(found, expected)


def keyed(rollouts, seed):
    return dataclasses.replace(rollouts, keys=jax.random.split(jax.random.key(seed), len(rollouts.rewards)))


@pytest.mark.parametrize("options", [{}, {"alpha": 0.5, "floor": 0.2}])
def test_the_placebo_has_the_mean_and_variance_of_inverse_probability_scaling(options):
    """Compares new rewards in groups of rewards 0 and 1; wrong answers have outcomes, and weights, of their own."""
    rng = np.random.default_rng(5)
    ids = rng.choice(5, p=[0.2, 0.45, 0.15, 0.15, 0.05], size=(200, 7)) - 1  # -1 and 3 are wrong
    rewards = np.float32((ids >= 0) & (ids < 3))
    rollouts = keyed(rewarded(rewards, outcome_id=ids), 3)
    dealt = np.asarray(PermutedInverseFrequency(**options)(rollouts.rewards, rollouts))
    scaled = np.asarray(InverseFrequency(**options)(rollouts.rewards, rollouts))
    assert_close(dealt.mean(axis=-1), scaled.mean(axis=-1))
    assert_close(dealt.var(axis=-1), scaled.var(axis=-1))
    assert (np.abs(dealt - scaled).max(axis=-1) > 0.1).mean() > 0.25


def test_the_placebo_deals_the_weights_uniformly_among_rewarded_answers():
    """The weights are 2, 2, 2 and 6; the 6 must fall on each rewarded place equally often."""
    prompts, ids, places = 4000, [0, 9, 0, 1, 0, 9], np.array([0, 2, 3, 4])
    rewards = np.tile(np.float32([1, 0, 1, 1, 1, 0]), (prompts, 1))
    rollouts = keyed(rewarded(rewards, outcome_id=np.tile(ids, (prompts, 1))), 7)
    weights = np.asarray(PermutedInverseFrequency()(rollouts.rewards, rollouts))
    assert_close(np.sort(weights, axis=-1), np.tile([0, 0, 2, 2, 2, 6], (prompts, 1)))
    found = np.bincount(weights.argmax(axis=-1), minlength=6)
    assert found[places].sum() == prompts
    assert ((found[places] - prompts / 4) ** 2 / (prompts / 4)).sum() < chi2.isf(1e-3, 3)
    assert (np.asarray(PermutedInverseFrequency()(rollouts.rewards, rollouts)) == weights).all()


def test_one_rewarded_outcome_leaves_the_placebo_nothing_to_deal():
    rewards, ids = np.float32([[1, 0, 1, 0, 0, 0]] * 50), np.array([[0, 1, 0, 1, 1, 2]] * 50)
    rollouts = keyed(rewarded(rewards, outcome_id=ids), 2)
    for text, inverse in (("placebo", "ips_grpo"), ("placebo(standardise=False)", "ips_dr_grpo")):
        np.testing.assert_array_equal(advantages_of(text, rollouts), advantages_of(inverse, rollouts))
