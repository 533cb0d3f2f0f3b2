"""GRPO and its relatives beyond what their rows declare: rounding, returns, long answers, refusals."""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from groups import assert_close, random_rollouts, rollouts_of, sizes, token_advantages

from ipsrl.objectives import make
from ipsrl.objectives.advantages.baselines import GroupMeanBatchStd, LeaveOneOut
from ipsrl.objectives.penalties.kullback_leibler import AdaptiveKullbackLeibler
from ipsrl.objectives.reweighting.token_weights import ReturnToGo, WhitenedTokens
from ipsrl.objectives.shaping.reward_costs import AdaptiveDivergenceCost, OverlongPunishment
from ipsrl.structures import Sizes

TWO_GROUPS = np.array([[1.0, 0, 0, 1], [1, 1, 1, 0]])


@pytest.mark.parametrize("part", [GroupMeanBatchStd(), GroupMeanBatchStd(unbiased=True), LeaveOneOut()])
def test_equal_rewards_get_zero_beside_groups_that_differ(part):
    rewards = jnp.array([[0.1] * 7, [0.1] * 6 + [0.7], [0.0] * 7])
    actual = part(rewards, rollouts_of(np.zeros((3, 7, 1))))
    assert not actual[0].any()
    assert not actual[2].any()
    assert actual[1].all()


# Returns and whitening


def test_return_to_go_by_hand():
    """0.5 * (0.5 * 1.97 + 0.02) - 0.05, 0.5 * 1.97 + 0.02, and 2 - 0.03; a token later there is only padding."""
    rollouts = rollouts_of(
        [[[-0.5, -1.2, -0.7, np.nan]]],
        mask=[[[True, True, True, False]]],
        reference_log_probs=np.array([[[-1.0, -1.0, -1.0, np.nan]]], np.float32),
    )
    values = jnp.array([[[2.0, 2, 2, np.nan]]])
    assert_close(ReturnToGo(0.5, 0.1)(values, rollouts), [[[0.4525, 1.005, 1.97, 0.0]]])
    assert_close(ReturnToGo(0.5)(values, rollouts), [[[0.5, 1.0, 2.0, 0.0]]])
    assert_close(ReturnToGo()(values, rollouts), [[[2.0, 2.0, 2.0, 0.0]]])
    assert_close(ReturnToGo(1.0, 0.1, "k2")(values, rollouts), [[[2 - 0.019, 2 - 0.0065, 2 - 0.0045, 0.0]]])


def test_a_batch_of_equal_tokens_is_white_as_it_is():
    rollouts = rollouts_of(np.zeros((1, 7, 1)))
    assert not WhitenedTokens()(jnp.full((1, 7, 1), 0.1), rollouts).any()
    assert not WhitenedTokens(unbiased=True)(jnp.full((1, 1, 1), 0.1), rollouts_of(np.zeros((1, 1, 1)))).any()


# Length


def with_lengths(lengths, width, **fields):
    mask = np.arange(width) < np.array(lengths)[None, :, None]
    return rollouts_of(np.zeros(mask.shape), mask, **fields)


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
    rollouts = with_lengths([1, 16384, 18432, 20480, 20481], 20481)
    actual = part(jnp.array([[1.0, 1, 0, 0, 0]]), rollouts)
    np.testing.assert_allclose(actual, [[1, 1, -0.5 * part.weight, -part.weight, beyond]], rtol=2e-7)


@pytest.mark.parametrize("text", ["dapo(overlong_cache=6)", "dapo(overlong_cache=64)"])
def test_a_cache_longer_than_the_longest_answer_is_refused(text):
    """An answer of no tokens at all would be punished."""
    with pytest.raises(ValueError, match=r"the overlong cache of \d+ tokens is longer than the limit of 5"):
        token_advantages(text, with_lengths([1, 5], 5))
    assert token_advantages("dapo(overlong_cache=5)", with_lengths([1, 5], 5)).any()


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "sequence_sum", "constant_length"])
def test_a_loss_without_truncated_answers_is_that_of_the_others(aggregation):
    """As if they had no tokens, given the advantages of the whole group."""
    rollouts, scores = random_rollouts(3)
    assert 0 < rollouts.truncated.sum() < rollouts.truncated.size
    plain, filtered = (
        make(f"dapo(overlong_weight=0, overlong_filter={on}, aggregation={aggregation})") for on in (False, True)
    )
    weights, _, _ = plain.weigh(rollouts, plain.init(Sizes(3)))
    others = dataclasses.replace(rollouts, token_mask=rollouts.token_mask & ~rollouts.truncated[..., None])
    expected, actual = plain.loss(scores, others, weights), filtered(scores, rollouts)
    assert_close(actual.loss_sum / actual.count, expected.loss_sum / expected.count)


def test_where_all_answers_are_truncated_nothing_is_left():
    rollouts = rollouts_of(np.zeros((1, 4, 2)), rewards=TWO_GROUPS[1:], truncated=np.ones((1, 4), bool))
    assert not token_advantages("dapo(overlong_filter=True)", rollouts).any()


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grpo(dual_clip=1.0)", "dual_clip is 1.0, it must be finite and above 1, or None"),
        ("grpo(kl_target=6.0)", "kl_target=6.0 is about the KL penalty, whose coefficient kl is 0: give kl as well"),
        ("grpo(kl=0.1, kl_target=0.0)", "the target of the KL penalty is 0.0, it must be positive and finite"),
        ("grpo(kl=0.1, kl_target=-1.0, kl_in=reward)", "the target of the KL penalty is -1.0"),
        ("grpo(kl=0.1, kl_in=reward, kl_estimator=corrected_k3)", "but rewards have no gradient: use k1, k2 or k3"),
        ("reinforce_plus_plus(kl=0.1, kl_estimator=corrected_k3)", "use k1, k2 or k3"),
        ("grpo(kl_in=reward)", "kl_in=reward is about the KL penalty, whose coefficient kl is 0"),
        ("grpo(kl_estimator=k2)", "kl_estimator=k2 is about the KL penalty"),
        ("rloo(kl_estimator=k1)", "kl_estimator=k1 is about the KL penalty"),
        ("rloo(kl_in=loss)", "kl_in=loss is about the KL penalty"),
        ("reinforce_plus_plus(kl_in=loss)", "kl_in=loss is about the KL penalty"),
        ("reinforce_plus_plus_baseline(kl_estimator=k3)", "kl_estimator=k3 is about the KL penalty"),
        ("gspo(kl_estimator=k2)", "kl_estimator=k2 is about the KL penalty"),
        ("rloo(aggregation=token_mean)", "aggregation=token_mean would weigh answers by their length"),
        ("ar_lopti(lopti=False, threshold=0.3)", "threshold=0.3 belongs to lopti=True: leave it out"),
        ("rloo(kl=-0.1)", "the coefficient of the KL penalty is -0.1, it must be positive and finite"),
        (
            "reinforce_plus_plus(kl=-0.1)",
            "the coefficient of the KL penalty is -0.1, it must be finite and not negative",
        ),
        ("reinforce_plus_plus(gamma=0.0)", "gamma is 0.0, it must lie above 0 and not above 1"),
        ("reinforce_plus_plus(gamma=1.5)", "gamma is 1.5, it must lie above 0 and not above 1"),
        ("rloo(clip_low=0.0)", "low must lie in (0, 1]"),
        ("gspo(clip_high=0.0)", "high above 0"),
        ("dapo(overlong_weight=-1.0)", "the overlong punishment is -1.0, it must be finite and not negative"),
        ("dapo(overlong_limit=0)", "the overlong limit, in tokens, is 0, it must be at least 1"),
        ("dapo(overlong_cache=0)", "the overlong cache, in tokens, is 0, it must be at least 1"),
        ("dapo(overlong_limit=4, overlong_cache=5)", "cache of 5 tokens is longer than the limit of 4"),
        (
            "sapo(temperature_negative=0.0)",
            "the temperature of negative advantages is 0.0, it must be positive and finite",
        ),
        ("ar_lopti(alpha=1.5)", "alpha is 1.5, it must lie between 0 and 1"),
        ("ar_lopti(threshold=1.0)", "threshold is 1.0, it must lie strictly between 0 and 1"),
        ("lp_reg(coefficient=0.0)", "the coefficient of Lp-Reg is 0.0, it must be positive and finite"),
        ("lp_reg(kappa=1.0)", "kappa is 1.0, it must lie strictly between 0 and 1"),
        ("lp_reg(rho=0.0)", "rho is 0.0, it must lie strictly between 0 and 1"),
        ("lp_reg(likeliest=0)", "likeliest is 0, it must be at least 1"),
        ("lp_reg(ratio_bound=1.0)", "the bound on the importance ratio is 1.0, it must be finite and above 1"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        make(text)
    assert "\n" not in str(error.value)
    assert ". " not in str(error.value)


@pytest.mark.parametrize("gain", [0.0, 1.5])
def test_a_gain_outside_its_range_is_refused(gain):
    for kind in (AdaptiveKullbackLeibler, AdaptiveDivergenceCost):
        with pytest.raises(ValueError, match=f"the gain of the KL penalty is {gain}, it must lie above 0"):
            kind(0.1, gain=gain)


@pytest.mark.parametrize(
    ("text", "smallest"),
    [("rloo", 2), ("lite_ppo", 2), ("reinforce_plus_plus_baseline", 2), ("reinforce_plus_plus", 1), ("dapo", 2)],
)
def test_the_smallest_group(text, smallest):
    objective = make(text)
    objective.check(frozenset(), smallest, sizes(1))
    if smallest > 1:
        with pytest.raises(ValueError, match="group_size is 1, it must be at least 2"):
            objective.check(frozenset(), 1, sizes(1))
