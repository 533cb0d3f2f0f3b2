"""Objectives that treat correct and wrong answers by rules of their own, by numbers and identities derived by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from tests.objectives.groups import advantages_of, assert_close, rollouts_of
from tests.objectives.mean_updates import mean_update

LOGITS = jnp.array([0.4, -0.3, 1.1, 0.0])
REWARDS = jnp.array([1.0, 1.0, 0.0, 0.3])


def one_group(rewards):
    return rollouts_of(np.zeros((1, len(rewards), 1)), rewards=np.float32([rewards]))


def test_correct_and_wrong_answers_have_weights_of_their_own():
    group = one_group([1, 0, 0.5])
    assert_close(advantages_of("w_reinforce", group), [[0.1, -1.0, -0.45]])
    assert_close(advantages_of("w_reinforce(positive=0.0)", group), [[0.0, -1.0, -0.5]])
    assert_close(advantages_of("w_reinforce(positive=1.0, negative=0.0)", group), [[1.0, 0.0, 0.5]])


@pytest.mark.parametrize(("positive", "negative"), [(0.1, 1.0), (0.0, 1.0), (1.0, 0.0), (0.4, 0.6)])
def test_weights_of_correct_and_wrong_answers_do_not_change_the_direction_of_the_mean_update(positive, negative):
    text = f"w_reinforce(positive={positive}, negative={negative})"
    plain = mean_update(make("reinforce"), LOGITS, REWARDS, 4)
    np.testing.assert_allclose(
        mean_update(make(text), LOGITS, REWARDS, 4), (positive + negative) * plain, rtol=1e-5, atol=1e-6
    )


def test_the_forward_correction_is_a_pair_of_weights():
    group = one_group([1, 0, 1, 0, 0])
    assert_close(
        advantages_of("w_reinforce(positive=0.3, negative=0.7)", group),
        advantages_of("forward_correction(false_negative_rate=0.3)", group),
    )


# NGRPO


def test_a_virtual_best_answer_counts_in_mean_and_standard_deviation():
    """One correct answer of eight: 1.76 and -0.50, the paper's example, where GRPO has 2.47 and -0.35."""
    rare, none, everyone = (one_group([1] * correct + [0] * (8 - correct)) for correct in (1, 0, 8))
    found = advantages_of("ngrpo(unbiased_std=True)", rare)
    np.testing.assert_allclose(found[0, :2], [1.764, -0.504], atol=5e-4)
    np.testing.assert_allclose(advantages_of("grpo(unbiased_std=True)", rare)[0, :2], [2.475, -0.354], atol=5e-4)
    # All wrong: (0 - 1/9) / sqrt(1/9 * 8/9).
    assert_close(advantages_of("ngrpo", none), np.full((1, 8), -(8**-0.5)))
    assert not advantages_of("ngrpo", everyone).any()


# TOPR


def test_on_policy_topr_is_reinforce():
    plain = mean_update(make("reinforce"), LOGITS, REWARDS, 4)
    np.testing.assert_allclose(mean_update(make("topr"), LOGITS, REWARDS, 4), 2 * plain, rtol=1e-5, atol=1e-6)


# QAE


def test_below_a_share_of_correct_answers_only_they_count_and_above_it_only_wrong_ones():
    """K = 0.4: up to six of ten correct answers get r / std, more (r - 1) / std."""
    for correct in range(1, 10):
        rewards = np.array([1] * correct + [0] * (10 - correct))
        std = (correct * (10 - correct)) ** 0.5 / 10
        expected = (rewards if correct <= 6 else rewards - 1) / std
        assert_close(advantages_of("qae", one_group(rewards)), [expected])
    assert not advantages_of("qae", one_group([1] * 10)).any()


def test_the_quantile_is_one_of_the_rewards():
    group = one_group([0.1, 0.2, 0.4, 0.8])
    std = np.std([0.1, 0.2, 0.4, 0.8])
    for quantile, baseline in ((0.25, 0.1), (0.26, 0.2), (0.75, 0.4), (1.0, 0.8)):
        expected = (np.array([[0.1, 0.2, 0.4, 0.8]]) - baseline) / std
        assert_close(advantages_of(f"qae(quantile={quantile})", group), expected)


def test_the_mean_update_of_qae_has_the_direction_of_reinforce():
    binary = jnp.array([1.0, 1.0, 0.0, 0.0])
    plain = mean_update(make("reinforce"), LOGITS, binary, 5)
    found = mean_update(make("qae"), LOGITS, binary, 5)
    factor = float(found @ plain / (plain @ plain))
    assert factor > 1
    np.testing.assert_allclose(found, factor * plain, atol=1e-6)
