import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.catalog.strata import PreferredMode
from ipsrl.objectives.estimators.subgroups import normalised_among, stratum_of
from tests.objectives.groups import assert_close, rollouts_of, token_advantages


def one_group(rewards, first_tokens, length=1):
    """One group whose answers begin with the given tokens."""
    shape = (1, len(rewards), length)
    tokens = np.broadcast_to(np.asarray(first_tokens, np.int32)[None, :, None], shape)
    return rollouts_of(np.zeros(shape), rewards=np.array([rewards], np.float32), tokens=tokens)


REWARDS, STRATA = [1, 0, 0, 1, 0, 1], [7, 7, 7, 2, 2, 5]
# Means 1/3, 1/2 and 1, standard deviations sqrt(2)/3, 1/2 and none; those of the group are 1/2 and 1/2.
INSIDE = np.array([2**0.5, -(0.5**0.5), -(0.5**0.5), 1, -1, 0])
REPLICATED = np.array([1, -1, -1, 1, -1, 1])


@pytest.mark.parametrize("alpha", [0.0, 0.4, 0.8, 1.0])
def test_blend_of_strata_and_group(alpha):
    advantages = token_advantages(f"stratified_grpo(alpha={alpha}, stratum=first_token)", one_group(REWARDS, STRATA))
    assert_close(advantages[0, :, 0], alpha * INSIDE + (1 - alpha) * REPLICATED)


def test_equal_rewards_of_a_stratum_give_exactly_zero():
    """The mean of three times 0.1 is not 0.1 in float32; nor do 0.9 / 0.6 and 0.6 / 0.4 agree in the last bit."""
    tie = [float(np.float32(0.9) / np.float32(0.6)), float(np.float32(0.6) / np.float32(0.4))]
    rollouts = one_group([0.1, 0.1, 0.1, *tie, 0.0], [0, 0, 0, 1, 1, 2])
    assert not token_advantages("stratified_grpo(alpha=1.0, stratum=first_token)", rollouts).any()
    assert token_advantages("stratified_grpo(stratum=first_token)", rollouts).all()


def test_nobody_to_compare_with_is_zero():
    values, nobody = jnp.array([[3.0, -2.0]]), jnp.zeros((1, 2, 2), bool)
    assert not normalised_among(values, nobody).any()
    assert not normalised_among(values, nobody, standardise=False).any()


def test_keys():
    mask = np.arange(4) < np.array([[[4], [1], [3], [0]]])
    rollouts = rollouts_of(
        np.zeros((1, 4, 4)),
        mask,
        tokens=np.full((1, 4, 4), 6, np.int32),
        planning_mask=np.array([[[1, 1, 0, 1], [0, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]], bool),
    )
    assert stratum_of(rollouts, "length").tolist() == [[4, 1, 3, 0]]
    assert stratum_of(rollouts, "length", 2).tolist() == [[2, 0, 1, 0]]
    assert stratum_of(rollouts, "planning").tolist() == [[3, 0, 2, 0]]
    assert stratum_of(rollouts, "planning", 2).tolist() == [[1, 0, 1, 0]]
    assert stratum_of(rollouts, "first_token").tolist() == [[6, 6, 6, -1]]


def test_modes_by_hand():
    """Half of the group thinks (token 3), with rewards 1, 0; the rest has 1, 1. All the best of a mode count."""
    rollouts = one_group([1, 0, 1, 1], [3, 3, 0, 5], length=2)
    within = np.array([3**-0.5, -(3**0.5), 3**-0.5, 3**-0.5])
    between = np.array([-1, -1, 1, 1])
    advantages = token_advantages("hgpo(think_token=3)", rollouts)[0]
    assert_close(advantages, np.stack([within + between, within], axis=-1))
    assert_close(token_advantages("hgpo(think_token=3, alpha=0.5)", rollouts)[0, :, 0], within + 0.5 * between)
    # Nobody thinks: the best of the group, and no preference.
    assert_close(token_advantages("hgpo(think_token=9)", rollouts)[0], np.stack([within, within], axis=-1))


@pytest.mark.parametrize(
    ("delta", "preferred"),
    [(0.2, [-1, -1, 1, 1]), (0.05, [1, 1, -1, -1]), (-0.2, [1, 1, -1, -1]), (0.1, [0, 0, 0, 0])],
)
def test_the_head_start_decides_between_close_modes(delta, preferred):
    """Mean rewards 0.8 with thinking, 0.7 without; how far apart they are does not matter."""
    rollouts = one_group([1.0, 0.6, 0.7, 0.7], [0, 0, 1, 2])
    assert_close(PreferredMode(delta=delta)(jnp.zeros((1, 4, 1)), rollouts)[0, :, 0], preferred)


def test_a_mode_may_be_forced_and_need_not_stand_first():
    """A tool speaks first; then half of the group is forced to think (token 3) or not, the rest chooses."""
    tokens = np.array([[[7, 3, 5], [7, 4, 5], [7, 3, 5], [7, 4, 5]]], np.int32)
    mask = np.array([[[0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 1]]], bool)
    rewards = np.array([[1, 0, 1, 0]], np.float32)
    rollouts = rollouts_of(np.zeros((1, 4, 3)), mask, tokens=tokens, rewards=rewards)
    assert stratum_of(rollouts, "first_token").tolist() == [[3, 4, 3, 4]]
    preferred = PreferredMode(think_token=3)(jnp.zeros((1, 4, 3)), rollouts)
    assert_close(preferred, [[[0, 1, 0], [0, -1, 0], [0, 1, 0], [0, -1, 0]]])


def test_an_empty_answer_does_not_think():
    rollouts = one_group([1, 0, 0], [0, 0, 0])
    rollouts = dataclasses.replace(rollouts, token_mask=rollouts.token_mask.at[0, 1].set(False))
    assert_close(PreferredMode()(jnp.zeros((1, 3, 1)), rollouts)[0, :, 0], np.array([1, -2, 1]) / 2**0.5)
