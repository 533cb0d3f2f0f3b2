"""Numbers derived by hand for RLOO, REINFORCE++, DAPO, Lite PPO, GSPO, SAPO, AR and Lopti, Lp-Reg, and KL terms."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from groups import assert_close, random_rollouts, rollouts_of, sizes

from ipsrl.objectives import make
from ipsrl.objectives.advantages import GroupMeanBatchStd, LeaveOneOut
from ipsrl.objectives.penalties import AdaptiveKullbackLeibler, KullbackLeibler, LowProbabilityRegulariser
from ipsrl.objectives.reference_divergence import token_divergence
from ipsrl.objectives.reward_costs import AdaptiveDivergenceCost, DivergenceCost, OverlongPunishment
from ipsrl.objectives.reweighting import ProbabilityWeight, ReturnToGo, WhitenedTokens
from ipsrl.objectives.surrogates import BoundedRatio, ClippedRatio, ClippedSequenceRatio, SoftGate
from ipsrl.structures import PolicyScores, Sizes

TWO_GROUPS = np.array([[1.0, 0, 0, 1], [1, 1, 1, 0]])


def advantages(text, rollouts):
    objective = make(text)
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(rollouts.rewards.shape[0])))
    return weights.advantages


def values_and_gradient(part, log_probs, advantage, behaviour=0.0, mask=None, **fields):
    """Values of the tokens of one answer, and derivatives of their mean by the log-probabilities."""
    log_probs = jnp.asarray(log_probs, jnp.float32)[None, None]
    rollouts = rollouts_of(jnp.full(log_probs.shape, behaviour), mask, **fields)
    advantage = jnp.broadcast_to(jnp.asarray(advantage, jnp.float32), log_probs.shape)

    def mean(log_probs):
        values, _ = part(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts, advantage)
        values = jnp.where(rollouts.token_mask, values, 0.0)
        return values.sum() / rollouts.token_mask.sum(), values[0, 0]

    gradient, values = jax.grad(mean, has_aux=True)(log_probs)
    return values, gradient[0, 0]


# Baselines


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("dr_grpo", 0.5, [0.25, -0.75]),
        ("grpo", 1.0, [0.57735, -1.73205]),
        ("grpo(unbiased_std=True)", 0.866025, [0.5, -1.5]),
        ("lite_ppo", 1.032795, [0.516398, -1.549193]),
        ("lite_ppo(unbiased_std=True)", 0.966092, [0.483046, -1.449138]),
        ("rloo", 0.666667, [0.333333, -1.0]),
        ("reinforce_plus_plus_baseline", 1.069045, [0.534522, -1.603567]),
    ],
)
def test_baselines_of_two_groups(text, first, second):
    expected = np.array([[first, -first, -first, first], [second[0]] * 3 + [second[1]]])
    actual = advantages(text, rollouts_of(np.zeros((2, 4, 1)), rewards=TWO_GROUPS))
    np.testing.assert_allclose(actual[..., 0], expected, rtol=2e-6)


def test_reinforce_plus_plus_compares_with_the_whole_batch():
    """Mean 5/8, variance 15/64: group statistics do not matter."""
    actual = advantages("reinforce_plus_plus", rollouts_of(np.zeros((2, 4, 1)), rewards=TWO_GROUPS))
    assert_close(actual[..., 0], np.where(TWO_GROUPS == 1, 0.774597, -1.290994))


@pytest.mark.parametrize("part", [GroupMeanBatchStd(), GroupMeanBatchStd(unbiased=True), LeaveOneOut()])
def test_equal_rewards_get_zero_beside_groups_that_differ(part):
    rewards = jnp.array([[0.1] * 7, [0.1] * 6 + [0.7], [0.0] * 7])
    actual = part(rewards, rollouts_of(np.zeros((3, 7, 1))))
    assert not actual[0].any()
    assert not actual[2].any()
    assert actual[1].all()


def test_rloo_is_dr_grpo_with_one_sample_less():
    rollouts, _ = random_rollouts(1, group=5, binary=False)
    assert_close(advantages("rloo", rollouts), 5 / 4 * advantages("dr_grpo", rollouts))


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


def test_whitening_counts_tokens():
    """Answers of three tokens and of one, with values 1 and 0: mean 3/4, variance 3/16, or 1/4 unbiased."""
    mask = [[[True, True, True], [True, False, False]]]
    values = jnp.array([[[1.0, 1, 1], [0, np.nan, np.nan]]])
    rollouts = rollouts_of(np.zeros((1, 2, 3)), mask)
    assert_close(WhitenedTokens()(values, rollouts), [[[0.57735] * 3, [-1.73205, 0, 0]]])
    assert_close(WhitenedTokens(unbiased=True)(values, rollouts), [[[0.5] * 3, [-1.5, 0, 0]]])


def test_a_batch_of_equal_tokens_is_white_as_it_is():
    rollouts = rollouts_of(np.zeros((1, 7, 1)))
    assert not WhitenedTokens()(jnp.full((1, 7, 1), 0.1), rollouts).any()
    assert not WhitenedTokens(unbiased=True)(jnp.full((1, 1, 1), 0.1), rollouts_of(np.zeros((1, 1, 1)))).any()


def test_whitening_moves_a_silent_group_where_lengths_differ():
    """r - group mean is 1/2, -1/2, 0, 0 with 3, 1, 1, 1 tokens: the token mean is 1/6, and groups of zeros feel it."""
    mask = np.ones((2, 2, 3), bool)
    mask[0, 1, 1:] = mask[1, :, 1:] = False
    rollouts = rollouts_of(np.zeros((2, 2, 3)), mask, rewards=np.array([[1.0, 0], [1, 1]]))
    std = np.sqrt((4 * 0.25) / 6 - 1 / 36)
    actual = advantages("reinforce_plus_plus_baseline", rollouts)
    assert_close(actual[..., 0], np.array([[0.5 - 1 / 6, -0.5 - 1 / 6], [-1 / 6, -1 / 6]]) / std)


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
        advantages(text, with_lengths([1, 5], 5))
    assert advantages("dapo(overlong_cache=5)", with_lengths([1, 5], 5)).any()


def test_the_forms_of_the_punishment_agree_up_to_the_longest_possible_answer():
    rollouts = with_lengths(range(1, 21), 20)
    paper, verl = (OverlongPunishment(form=form)(jnp.zeros((1, 20)), rollouts) for form in ("paper", "verl"))
    assert_close(paper, verl)
    assert_close(paper[0], [0.0] * 16 + [-0.25, -0.5, -0.75, -1.0])


def test_length_is_punished_before_the_group_is_normalised():
    rollouts = with_lengths([4, 4, 4, 20], 20, rewards=np.ones((1, 4)))
    assert_close(advantages("dapo", rollouts)[0, :, 0], [0.57735] * 3 + [-1.73205])
    assert not advantages("dapo(overlong_weight=0.0)", rollouts).any()


@pytest.mark.parametrize(
    ("aggregation", "factor"), [("token_mean", 6 / 4), ("sequence_mean", 4 / 3), ("constant_length", 4 / 3)]
)
def test_truncated_answers_are_silent_but_stay_in_the_statistics_of_the_group(aggregation, factor):
    """Answers of 2, 2, 1 and 1 tokens, and one of none, of a group of its own; the first one is truncated."""
    mask = np.array([[[1, 1], [1, 1], [1, 0], [1, 0]], [[0, 0]] * 4], bool)
    truncated = np.array([[True, False, False, False], [False] * 4])
    rollouts = rollouts_of(np.zeros((2, 4, 2)), mask, rewards=TWO_GROUPS[[1, 0]], truncated=truncated)
    objective = f"dapo(overlong_weight=0, overlong_filter=True, aggregation={aggregation})"
    assert_close(advantages(objective, rollouts)[0, :, 0], factor * np.array([0.0, 0.57735, 0.57735, -1.73205]))


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
    assert not advantages("dapo(overlong_filter=True)", rollouts).any()


# Surrogates


LOG_RATIOS = np.array([0.1, -0.2, 0.3, 0.0])


def test_ratio_of_an_answer():
    mean = ClippedSequenceRatio(0.2, 0.2)
    values, gradient = values_and_gradient(mean, LOG_RATIOS, 1.0)
    assert_close(values, [1.051271] * 4)
    assert_close(gradient, [1.051271 / 4] * 4)
    total = ClippedSequenceRatio(0.2, 0.2, exponent="sum")
    values, gradient = values_and_gradient(total, LOG_RATIOS, -1.0)
    assert_close(values, [-1.221403] * 4)
    assert_close(gradient, [-1.221403] * 4)
    values, gradient = values_and_gradient(total, LOG_RATIOS, 1.0)
    assert_close(values, [1.2] * 4)
    assert not gradient.any()
    values, gradient = values_and_gradient(ClippedSequenceRatio(3e-4, 4e-4), LOG_RATIOS, 1.0)
    assert_close(values, [1.0004] * 4)
    assert not gradient.any()


def test_ratio_of_an_answer_sees_its_own_tokens_only():
    padded = np.append(LOG_RATIOS, [7.0, np.nan])
    mask = [[[True] * 4 + [False] * 2]]
    values, gradient = values_and_gradient(ClippedSequenceRatio(0.2, 0.2), padded, 1.0, mask=mask)
    assert_close(values, [1.051271] * 4 + [0, 0])
    assert_close(gradient, [1.051271 / 4] * 4 + [0, 0])


def test_ratio_by_token_keeps_each_tokens_own_advantage():
    own = np.array([1.0, -1.0, 2.0, 0.0])
    by_token = ClippedSequenceRatio(0.2, 0.2, per_token=True)
    values, gradient = values_and_gradient(by_token, LOG_RATIOS, own)
    assert_close(values, 1.051271 * own)
    assert_close(gradient, 1.051271 / 4 * own)
    values, gradient = values_and_gradient(ClippedSequenceRatio(0.2, 0.2), LOG_RATIOS, own)
    assert_close(values, 1.051271 * own)
    assert_close(gradient, [1.051271 / 4 * own.mean()] * 4)


def test_gspo_and_gspo_token_are_one_where_answers_have_one_advantage():
    rollouts, scores = random_rollouts(2, binary=False)
    for arguments in ("", "(clip_low=0.1, clip_high=0.1, kl=0.1)"):
        losses = [
            jax.value_and_grad(lambda scores, objective: objective(scores, rollouts).loss_sum)(scores, make(text))
            for text in ("gspo" + arguments, "gspo_token" + arguments)
        ]
        jax.tree.map(assert_close, *losses)
    assert np.abs(losses[0][1].log_probs).max() > 0.01


def test_soft_gate():
    """2 / tau and slope A at ratio 1; at ratio 2 with tau = 1, 4 sigmoid(1) and 8 sigmoid(1) (1 - sigmoid(1))."""
    values, gradient = values_and_gradient(SoftGate(), np.log([1, 2, 1, 2]), [1.0, 1, -1, -1])
    assert_close(values, [2.0, 2.924234, -1.904762, -2.822000])
    assert_close(4 * gradient, [1.0, 1.572896, -1.0, -1.536220])
    same, _ = values_and_gradient(SoftGate(), [0.0], 0.0)
    assert not same.any()


def test_dual_clip():
    ratios = [0.5, 1, 2, 4] * 2
    advantage = [1.0] * 4 + [-1.0] * 4
    values, gradient = values_and_gradient(ClippedRatio(0.2, 0.28, dual_clip=3.0), np.log(ratios), advantage)
    assert_close(values, [0.5, 1, 1.28, 1.28, -0.8, -1, -2, -3])
    assert_close(8 * gradient, [0.5, 1, 0, 0, 0, -1, -2, 0])
    rollouts = rollouts_of(np.zeros((1, 1, 8)))
    scores = PolicyScores(jnp.log(jnp.array(ratios))[None, None], jnp.zeros((1, 1, 8)))
    _, metrics = ClippedRatio(0.2, 0.28, 3.0)(scores, rollouts, jnp.array(advantage)[None, None])
    assert_close(metrics["clip_fraction"], (4, 8))


def test_bounded_ratio_has_no_minimum():
    ratios = [0.5, 2, 12] * 2
    values, gradient = values_and_gradient(BoundedRatio(10.0), np.log(ratios), [1.0] * 3 + [-1.0] * 3)
    assert_close(values, [0.5, 2, 10, -0.5, -2, -10])
    assert_close(6 * gradient, [0.5, 2, 0, -0.5, -2, 0])


# KL


DIFFERENCE = np.array([0.5, -0.5, -2.0, 0.0])


@pytest.mark.parametrize(
    ("estimator", "values", "gradient"),
    [
        ("k1", DIFFERENCE, [1.0] * 4),
        ("k2", [0.125, 0.125, 2.0, 0.0], DIFFERENCE),
        ("k3", [0.106531, 0.148721, 4.389056, 0.0], [0.393469, -0.648721, -6.389056, 0.0]),
        ("corrected_k3", [0.106531, 0.148721, 4.389056, 0.0], DIFFERENCE),
    ],
)
@pytest.mark.parametrize("behind", [0.0, 0.7])
def test_estimators_of_the_divergence(estimator, values, gradient, behind):
    """Off-policy, with an importance ratio of exp(behind), the corrected one alone is multiplied by it."""
    log_probs = jnp.asarray(DIFFERENCE - 1.0, jnp.float32)[None, None]
    reference = np.full((1, 1, 4), -1.0, np.float32)
    rollouts = rollouts_of(log_probs - behind, reference_log_probs=reference)

    def total(log_probs):
        cost, _ = KullbackLeibler(1.0, estimator)(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts)
        return cost.sum(), cost[0, 0]

    slope, cost = jax.grad(total, has_aux=True)(log_probs)
    ratio = np.exp(behind) if estimator == "corrected_k3" else 1.0
    assert_close(cost, ratio * np.array(values))
    assert_close(slope[0, 0], ratio * np.array(gradient))


@pytest.mark.parametrize("distance", [-19.0, -21.0, -40.0])
@pytest.mark.parametrize("behind", [0.0, 0.5, -3.0, 25.0, -25.0])
def test_a_policy_far_below_its_reference_is_never_pushed_further_away(distance, behind):
    """The corrected estimator's gradient is rho d, until the ratio's own clamp takes it."""
    log_probs = jnp.full((1, 1, 1), distance - 1.0)
    rollouts = rollouts_of(log_probs - behind, reference_log_probs=np.full((1, 1, 1), -1.0, np.float32))

    def slope(estimator):
        return jax.grad(lambda x: KullbackLeibler(1.0, estimator)(PolicyScores(x, x), rollouts)[0].sum())(log_probs)

    assert (slope("k3") <= 0).all()
    np.testing.assert_allclose(slope("k2"), distance)
    corrected = np.exp(behind) * distance if abs(behind) < 20 else 0.0
    np.testing.assert_allclose(slope("corrected_k3"), corrected, rtol=1e-5)


def test_k3_where_the_clamp_begins():
    """exp(19) - 20 with slope 1 - exp(19); beyond 20, the value there."""
    rollouts = rollouts_of(np.zeros((1, 1, 4)), reference_log_probs=np.zeros((1, 1, 4), np.float32))
    log_probs = jnp.array([[[-19.0, -21.0, 19.0, 21.0]]])
    values = token_divergence(log_probs, rollouts, "k3")
    np.testing.assert_allclose(values[0, 0], [np.exp(19) - 20, np.exp(20) - 21, 18, 19], rtol=1e-6)
    slope = jax.grad(lambda x: token_divergence(x, rollouts, "k3").sum())(log_probs)
    np.testing.assert_allclose(slope[0, 0], [1 - np.exp(19), 0, 1 - np.exp(-19), 0], rtol=1e-6)


def test_the_corrected_estimator_is_right_for_stale_samples():
    """Averaged over the behaviour policy, it has the value and the gradient of KL(policy || reference)."""
    behaviour, logits, reference = (jnp.array(z) for z in ([0.5, -0.3, 0.1], [0.1, 0.4, -0.7], [-0.2, 0.6, 0.0]))
    behaviour, reference = jax.nn.log_softmax(behaviour), jax.nn.log_softmax(reference)
    rollouts = rollouts_of(behaviour[None, :, None], reference_log_probs=reference[None, :, None])

    def estimated(logits):
        log_probs = jax.nn.log_softmax(logits)[None, :, None]
        cost, _ = KullbackLeibler(1.0, "corrected_k3")(PolicyScores(log_probs, log_probs), rollouts)
        return jnp.exp(behaviour) @ cost[0, :, 0]

    def exact(logits):
        log_law = jax.nn.log_softmax(logits)
        return jnp.exp(log_law) @ (log_law - reference)

    for actual, expected in zip(*(jax.value_and_grad(f)(logits) for f in (estimated, exact)), strict=True):
        assert_close(actual, expected)


ANSWERS = rollouts_of(
    [[[-0.5, -1.2, -0.7], [-1.0, np.nan, np.nan]]],
    mask=[[[True, True, True], [True, False, False]]],
    reference_log_probs=np.array([[[-1.0, -1.0, -1.0], [-1.5, np.nan, np.nan]]], np.float32),
    rewards=np.array([[1.0, 0.0]]),
)


@pytest.mark.parametrize(
    ("estimator", "costs"),
    [("k1", [0.6, 0.5]), ("k2", [0.125 + 0.02 + 0.045, 0.125]), ("k3", [0.106531 + 0.021403 + 0.040818, 0.106531])],
)
def test_divergence_is_taken_from_the_reward_of_the_whole_answer(estimator, costs):
    shaped = DivergenceCost(0.1, estimator)(ANSWERS.rewards, ANSWERS)
    assert_close(shaped, [[1 - 0.1 * costs[0], -0.1 * costs[1]]])
    rloo = advantages(f"rloo(kl=0.1, kl_estimator={estimator})", ANSWERS)
    gap = 1 - 0.1 * (costs[0] - costs[1])
    assert_close(rloo[0, :, 0], [gap, -gap])
    grpo = make(f"grpo(kl=0.1, kl_in=reward, kl_estimator={estimator})")
    assert grpo.reward_shaping == (DivergenceCost(0.1, estimator),)
    assert not grpo.penalties


@pytest.mark.parametrize("text", ["rloo", "reinforce_plus_plus"])
def test_the_estimator_that_no_one_names_is_the_right_one_of_its_place(text):
    """k1 in the reward, k2 in the loss: both have the expected update of the divergence."""
    in_loss = make(f"{text}(kl=0.05, kl_in=loss)")
    assert in_loss == make(f"{text}(kl=0.05, kl_in=loss, kl_estimator=k2)")
    assert in_loss.penalties == (KullbackLeibler(0.05, "k2"),)
    in_reward = make(f"{text}(kl=0.05)")
    assert in_reward == make(f"{text}(kl=0.05, kl_estimator=k1)")
    assert not in_reward.penalties


@pytest.mark.parametrize(("target", "factor"), [(0.5, 1.01), (0.1, 1.02), (6.0, 0.98), (0.55, 1.0)])
def test_the_coefficient_follows_its_target(target, factor):
    """The two answers are 0.6 and 0.5 nats from the reference: 0.55 on average."""
    expected = np.array([0.2, 0.2 * factor, 0.2 * factor**2])
    penalty, cost = AdaptiveKullbackLeibler(0.2, "k2", target), AdaptiveDivergenceCost(0.2, "k1", target)
    in_loss, in_reward = penalty.init(Sizes(1)), cost.init(Sizes(1))
    for coefficient in expected:
        coefficients, in_loss = penalty.carry(ANSWERS, jnp.zeros((1, 2, 3)), in_loss)
        np.testing.assert_allclose(coefficients, [[[coefficient]]], rtol=1e-6)
        shaped, in_reward = cost.carry(ANSWERS.rewards, ANSWERS, in_reward)
        assert_close(shaped, [[1 - coefficient * 0.6, -coefficient * 0.5]])


# Unlikely tokens


def test_advantages_by_probability():
    """0.2 * 0.5 + 0.8 = 0.9, and 0.3 * 0.1 + 0.7 = 0.73; the sign does not matter."""
    rollouts = rollouts_of(np.log([[[0.5, 0.1, 1.0], [0.5, 0.1, 1.0]]]), rewards=np.array([[1.0, 0.0]]))
    assert_close(ProbabilityWeight(0.2)(jnp.ones((1, 2, 3)), rollouts)[0, 0], [0.9, 0.82, 1.0])
    assert_close(advantages("ar_lopti(lopti=False)", rollouts)[0], [[0.9, 0.82, 1.0], [-0.9, -0.82, -1.0]])
    assert_close(advantages("ar_lopti", rollouts)[0], [[0.85, 0.73, 1.0], [-0.85, -0.73, -1.0]])
    assert_close(advantages("ar_lopti(alpha=0.0)", rollouts)[0], [[1.0] * 3, [-1.0] * 3])


def test_lopti_takes_the_unlikely_tokens_first_and_then_the_others():
    rollouts, _ = random_rollouts(7, prompts=4)
    objective = make("ar_lopti(kl=0.01)")
    assert objective.num_stages == 2
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(4)))
    stages = [objective.at_stage(weights, rollouts, jnp.int32(stage)) for stage in range(2)]
    unlikely = np.exp(rollouts.behaviour_log_probs) < 0.5
    assert (stages[0].advantages == jnp.where(unlikely, weights.advantages, 0.0)).all()
    assert (stages[1].advantages == jnp.where(unlikely, 0.0, weights.advantages)).all()
    assert all(stage.advantages.any() for stage in stages)
    assert stages[0].coefficients == stages[1].coefficients == weights.coefficients
    # A probability of exactly the threshold is not below it.
    at_threshold = rollouts_of(np.log([[[0.25, 0.5]]]))
    assert (make("ar_lopti").stages(at_threshold, jnp.int32(0)) == jnp.array([[[True, False]]])).all()
    assert make("ar_lopti(lopti=False)").num_stages == 1


LAW = np.array([0.6, 0.3, 0.08, 0.02])


def lp_rollouts(tokens, advantage_rewards, law=LAW, mask=None):
    """One token for each answer, all from the same law."""
    tokens = np.array(tokens)[None, :, None]
    log_law = np.log(law)
    return dataclasses.replace(
        rollouts_of(log_law[tokens], mask, rewards=np.array([advantage_rewards], np.float32)),
        tokens=jnp.array(tokens),
        top_tokens=jnp.broadcast_to(jnp.arange(len(law)), (*tokens.shape, len(law))),
        top_log_probs=jnp.broadcast_to(jnp.array(log_law, jnp.float32), (*tokens.shape, len(law))),
    )


def coefficients(objective, rollouts):
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(rollouts.rewards.shape[0])))
    return np.array(weights.coefficients[0][..., 0])


def test_lp_reg_protects_unlikely_punished_tokens_that_are_no_noise():
    """Probabilities .6 .3 .08 .02 .6: their median is 0.3, so that those of .08 and .02 lie below it."""
    rollouts = lp_rollouts([0, 1, 2, 3, 0], [1.0, 0, 0, 0, 1])
    protected = coefficients(make("lp_reg(coefficient=2.0, rho=0.5)"), rollouts)
    assert protected.tolist() == [[0, 0, 2, 2, 0]]
    # 0.05 * 0.6 = 0.03 makes noise of the last token; so does a fixed threshold of 0.05.
    for text in ("lp_reg(rho=0.5, kappa=0.05)", "lp_reg(rho=0.5, kappa=0.05, threshold=fixed)"):
        assert coefficients(make(text), rollouts).tolist() == [[0, 0, 1, 0, 0]]
    # min-p scales with the likeliest token: 0.15 * 0.6 = 0.09 is above 0.08, a fixed 0.07 is not.
    assert coefficients(make("lp_reg(rho=0.5, kappa=0.15)"), rollouts).tolist() == [[0] * 5]
    assert coefficients(make("lp_reg(rho=0.5, kappa=0.07, threshold=fixed)"), rollouts).tolist() == [[0, 0, 1, 0, 0]]
    # A token that is not among the likeliest counts as noise.
    assert coefficients(make("lp_reg(rho=0.5, likeliest=3)"), rollouts).tolist() == [[0, 0, 1, 0, 0]]
    # Rewarded, they need no protection; neither do those of a group without a signal.
    assert coefficients(make("lp_reg(rho=0.5)"), lp_rollouts([0, 1, 2, 3, 0], [0.0, 0, 1, 1, 0])).tolist() == [[0] * 5]
    assert coefficients(make("lp_reg(rho=0.9)"), lp_rollouts([0, 1, 2, 3, 0], [1.0] * 5)).tolist() == [[0] * 5]


def test_the_released_lp_reg_ranks_punished_tokens_among_themselves():
    """Of the punished tokens .3 .08 .02 the median is .08; of all tokens it is .3."""
    rollouts = lp_rollouts([0, 1, 2, 3, 0], [1.0, 0, 0, 0, 1])
    assert coefficients(make("lp_reg(rho=0.5, form=code)"), rollouts).tolist() == [[0, 0, 0, 1, 0]]


@pytest.mark.parametrize("kappa", [0.02, 0.05, 0.2])
def test_the_cost_of_lp_reg_is_the_divergence_from_its_proxy(kappa):
    """By the logits, KL(proxy || policy) has the gradient policy - proxy, which is 0 without noise and on-policy."""
    rollouts = lp_rollouts([2], [1.0])
    proxy = np.where(kappa * 0.6 < LAW, LAW, 0.0)
    proxy = proxy / proxy.sum()
    part = LowProbabilityRegulariser(kappa=kappa)
    policy = np.array([0.5, 0.2, 0.2, 0.1])

    def cost(logits):
        log_law = jax.nn.log_softmax(logits)
        scores = PolicyScores(log_law[rollouts.tokens], jnp.zeros((1, 1, 1)), log_law[rollouts.top_tokens])
        return part(scores, rollouts)[0].sum()

    for law in (policy, LAW):
        value, gradient = jax.value_and_grad(cost)(jnp.array(np.log(law)))
        kept = proxy > 0
        assert_close(value, (proxy[kept] * np.log(proxy[kept] / law[kept])).sum())
        assert_close(gradient, law - proxy)


def test_lp_reg_bears_illegal_tokens_and_padding():
    rollouts = lp_rollouts([0, 0], [1.0, 1.0], law=np.array([0.75, 0.25]), mask=[[[True], [False]]])
    top = jnp.array([[[[np.log(0.75), np.log(0.25), -np.inf]], [[np.nan, np.nan, np.nan]]]], jnp.float32)
    rollouts = dataclasses.replace(rollouts, top_tokens=jnp.zeros(top.shape, jnp.int32), top_log_probs=top)
    scores = PolicyScores(rollouts.behaviour_log_probs, jnp.zeros((1, 2, 1)), top)

    def total(scores):
        return LowProbabilityRegulariser()(scores, rollouts)[0].sum()

    value, gradient = jax.value_and_grad(total)(scores)
    assert_close(value, 0.0)
    assert_close(gradient.top_log_probs, [[[[-0.75, -0.25, 0.0]], [[0.0, 0.0, 0.0]]]])


@pytest.mark.parametrize(
    ("probability", "value", "slope"), [(0.05, 0.142447, -0.632653), (0.1, 0.0, 0.0), (0.004064276, 10.0, 0.0)]
)
def test_the_released_lp_reg_pulls_one_token_up(probability, value, slope):
    """The proxy of 0.08 is 0.08 / 0.98, over 0.05 it is x = 1.632653: x - log x - 1, with slope 1 - x; above it, 0.

    At a gap of 3, exp(3) - 4 = 16.1 is more than the 10 at which the released penalty is clamped.
    """
    rollouts = lp_rollouts([2], [1.0])
    part = LowProbabilityRegulariser(kappa=0.05, form="code")

    def cost(log_probs):
        return part(PolicyScores(log_probs, log_probs, rollouts.top_log_probs), rollouts)[0].sum()

    actual = jax.value_and_grad(cost)(jnp.full((1, 1, 1), np.log(probability)))
    assert_close(actual[0], value)
    assert_close(actual[1], [[[slope]]])


def test_lp_reg_asks_for_its_tokens():
    assert make("lp_reg").top_tokens == 20
    assert make("lp_reg(likeliest=5)").top_tokens == 5
    assert make("lp_reg").needs == {"top_log_probs"}


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grpo(dual_clip=1.0)", "dual_clip is 1.0, it is a ratio and must be above 1, or None"),
        ("grpo(kl_target=6.0)", "kl_target=6.0 is about the KL penalty, whose coefficient kl is 0: give kl as well"),
        ("grpo(kl=0.1, kl_target=0.0)", "the target of the KL penalty is 0.0, it must be positive and finite"),
        ("grpo(kl=0.1, kl_target=-1.0, kl_in=reward)", "the target of the KL penalty is -1.0"),
        ("grpo(kl=0.1, kl_in=reward, kl_estimator=corrected_k3)", "which rewards have none of: use k1, k2 or k3"),
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
        ("reinforce_plus_plus(kl=-0.1)", "the coefficient of the KL penalty is -0.1, it must be positive and finite"),
        ("reinforce_plus_plus(gamma=0.0)", "gamma is 0.0, it must lie above 0 and not above 1"),
        ("reinforce_plus_plus(gamma=1.5)", "gamma is 1.5, it must lie above 0 and not above 1"),
        ("rloo(clip_low=0.0)", "low must lie in (0, 1]"),
        ("gspo(clip_high=0.0)", "high above 0"),
        ("dapo(overlong_weight=-1.0)", "the overlong punishment is -1.0, it must be finite and not negative"),
        ("dapo(overlong_limit=0)", "the overlong limit is 0 tokens, it must be at least 1"),
        ("dapo(overlong_cache=0)", "the overlong cache is 0 tokens, it must be at least 1"),
        ("dapo(overlong_limit=4, overlong_cache=5)", "cache of 5 tokens is longer than the limit of 4"),
        ("sapo(temperature_negative=0.0)", "a temperature of the soft gate is 0.0, it must be positive and finite"),
        ("ar_lopti(alpha=1.5)", "alpha is 1.5, it must lie between 0 and 1"),
        ("ar_lopti(threshold=1.0)", "threshold is 1.0, it must be a probability strictly between 0 and 1"),
        ("lp_reg(coefficient=0.0)", "the coefficient of Lp-Reg is 0.0, it must be positive and finite"),
        ("lp_reg(kappa=1.0)", "kappa is 1.0, it must lie strictly between 0 and 1"),
        ("lp_reg(rho=0.0)", "rho is 0.0, it must lie strictly between 0 and 1"),
        ("lp_reg(likeliest=0)", "likeliest is 0, it must be at least 1"),
        ("lp_reg(ratio_bound=1.0)", "the bound on the importance ratio is 1.0, it must be above 1"),
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
