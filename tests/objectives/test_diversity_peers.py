"""Rewards and weights for diversity, by numbers derived by hand from the papers' formulas."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from ipsrl.objectives.reweighting.diversity_weights import UniformCorrect
from ipsrl.objectives.shaping.diversity_rewards import (
    DistinctShare,
    PermutedInverseFrequency,
    SimilarityDiscount,
    Unlikeliness,
)
from ipsrl.objectives.shaping.inverse_scaling import InverseFrequency
from tests.objectives.groups import advantages_of, assert_close, rollouts_of


def shaped(part, rewards, **fields):
    """The new rewards of one group of one-token answers."""
    rewards = jnp.asarray([rewards], jnp.float32)
    fields = {name: np.asarray([values]) for name, values in fields.items()}
    behaviour = fields.pop("behaviour", np.zeros((*rewards.shape, 1)))
    return part(rewards, rollouts_of(behaviour, rewards=rewards, **fields))[0]


# DARLING


@pytest.mark.parametrize(
    ("part", "rewards", "outcomes", "expected"),
    [
        (DistinctShare(), [1, 1, -1, 0], [0, 1, 1, 2], [1, 1, -0.1, 0]),
        (DistinctShare(verifiable=False), [-1, 1, 2, 2], [0, 0, 1, 2], [0, 4 / 3, 3, 3]),
    ],
)
def test_distinct_share_of_rewards_below_zero(part, rewards, outcomes, expected):
    assert_close(shaped(part, rewards, outcome_id=outcomes), expected)


# Unlikeliness


def test_ranks_go_by_the_average_token_and_ties_share_theirs():
    behaviour = np.log([[0.2, 1, 1], [0.4, 0.4, 1], [0.5, 0.5, 0.5], [0.5, 0.7, 0.7]])
    mask = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 0]]
    expected = np.array([1, 1 - 0.0625, 2 * (1 - 2.5 * 0.0625), 1 - 2.5 * 0.0625])
    rewards = [1, 1, 2, 1]
    assert_close(shaped(Unlikeliness(), rewards, behaviour=behaviour, mask=mask), expected)
    assert_close(shaped(Unlikeliness(beta=0.0), rewards, behaviour=behaviour, mask=mask), rewards)


# DRA


def test_similarity_of_token_counts():
    """Counts (2, 1) and (1, 2) of two tokens have cosine 4/5; answers without a token are like nothing else."""
    tokens = [[1, 1, 2], [2, 1, 2], [3, 9, 9], [9, 9, 9], [1, 1, 1]]
    mask = [[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    actual = shaped(SimilarityDiscount("tokens"), [1, 2, 1, 1, 0], behaviour=np.zeros((5, 3)), mask=mask, tokens=tokens)
    assert_close(actual, [1 / 1.8, 2 / 1.8, 1, 1, 0])


# Placebo


def keyed(rollouts, seed):
    return dataclasses.replace(rollouts, keys=jax.random.split(jax.random.key(seed), len(rollouts.rewards)))


@pytest.mark.parametrize("options", [{}, {"alpha": 0.5, "floor": 0.2}])
def test_the_placebo_has_the_mean_and_variance_of_inverse_probability_scaling(options):
    """Of the new rewards, in every group of rewards 0 and 1: wrong answers have outcomes, and weights, of their own."""
    rng = np.random.default_rng(5)
    ids = rng.choice(5, p=[0.2, 0.45, 0.15, 0.15, 0.05], size=(200, 7)) - 1  # -1 and 3 are wrong
    rewards = np.float32((ids >= 0) & (ids < 3))
    rollouts = keyed(rollouts_of(np.zeros((200, 7, 1)), rewards=rewards, outcome_id=ids), 3)
    dealt = np.asarray(PermutedInverseFrequency(**options)(rollouts.rewards, rollouts))
    scaled = np.asarray(InverseFrequency(**options)(rollouts.rewards, rollouts))
    assert_close(dealt.mean(axis=-1), scaled.mean(axis=-1))
    assert_close(dealt.var(axis=-1), scaled.var(axis=-1))
    assert (np.abs(dealt - scaled).max(axis=-1) > 0.1).mean() > 0.25


def test_the_placebo_deals_the_weights_uniformly_among_rewarded_answers():
    """Of their weights 2, 2, 2 and 6, the odd one must fall on each of their places equally often."""
    prompts, ids, rewarded = 4000, [0, 9, 0, 1, 0, 9], np.array([0, 2, 3, 4])
    rewards = np.tile(np.float32([1, 0, 1, 1, 1, 0]), (prompts, 1))
    rollouts = keyed(rollouts_of(np.zeros((prompts, 6, 1)), rewards=rewards, outcome_id=np.tile(ids, (prompts, 1))), 7)
    weights = np.asarray(PermutedInverseFrequency()(rollouts.rewards, rollouts))
    assert_close(np.sort(weights, axis=-1), np.tile([0, 0, 2, 2, 2, 6], (prompts, 1)))
    found = np.bincount(weights.argmax(axis=-1), minlength=6)
    assert found[rewarded].sum() == prompts
    assert ((found[rewarded] - prompts / 4) ** 2 / (prompts / 4)).sum() < chi2.isf(1e-3, 3)
    assert (np.asarray(PermutedInverseFrequency()(rollouts.rewards, rollouts)) == weights).all()


def test_one_rewarded_outcome_leaves_the_placebo_nothing_to_deal():
    rewards, ids = np.float32([[1, 0, 1, 0, 0, 0]] * 50), np.array([[0, 1, 0, 1, 1, 2]] * 50)
    rollouts = keyed(rollouts_of(np.zeros((50, 6, 1)), rewards=rewards, outcome_id=ids), 2)
    for text, inverse in (("placebo", "ips_grpo"), ("placebo(standardise=False)", "ips_dr_grpo")):
        np.testing.assert_array_equal(advantages_of(text, rollouts), advantages_of(inverse, rollouts))


# UCPO


def test_unlikely_correct_answers_get_the_larger_share():
    """q = (2/3, 1/3) of two correct answers: weights 1 - tau + tau (2/3, 4/3), whatever their length."""
    behaviour = np.log([[[0.5, 0.5], [0.25, 1.0], [0.9, 1.0]], [[0.5, 0.5], [0.25, 1.0], [0.9, 1.0]]])
    mask = np.array([[[1, 1], [1, 0], [1, 0]]] * 2)
    rollouts = rollouts_of(behaviour, mask, rewards=np.float32([[1, 1, 0], [0, 0, 0]]))
    for tau in (0.2, 1.0):
        weights = UniformCorrect(tau)(jnp.ones((2, 3, 2)), rollouts)[..., 0]
        assert_close(weights, [[1 - tau / 3, 1 + tau / 3, 1], [1, 1, 1]])
