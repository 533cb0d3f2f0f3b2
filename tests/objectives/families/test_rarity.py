"""Objectives that pay for rare outcomes, by numbers and identities derived by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.structures import Sizes
from tests.objectives.groups import advantages_of, assert_close, rollouts_of
from tests.objectives.mean_updates import mean_update

LOGITS = jnp.array([0.4, -0.3, 1.1, 0.0])
REWARDS = jnp.array([1.0, 1.0, 0.0, 0.3])


def one_group(rewards, outcomes):
    return rollouts_of(np.zeros((1, len(rewards), 1)), rewards=np.float32([rewards]), outcome_id=np.int32([outcomes]))


def test_correct_answers_share_the_advantage_of_their_outcome():
    group = one_group([1, 1, 1, 0, 0, 0], [0, 0, 1, 2, 2, 2])
    expected = np.array([[1 / 2, 1 / 2, 1, -1, -1, -1]])
    assert_close(advantages_of("uniqueness_aware", group), expected)
    assert_close(advantages_of("uniqueness_aware(alpha=0.5)", group), np.sign(expected) * np.abs(expected) ** 0.5)
    assert_close(advantages_of("uniqueness_aware(alpha=0.0)", group), advantages_of("grpo", group))


def test_what_inverse_cluster_sizes_leave_of_expected_return():
    """Above a wrong answer: m + (1 - m) / n of m correct ones. Nearly solved, the likelier of two outcomes gains."""
    group = one_group([1, 1, 1, 0], [0, 0, 1, 2])
    found = advantages_of("uniqueness_aware(standardise=False)", group)[0]
    assert_close(found - found[3], [3 / 4 + 1 / 8, 3 / 4 + 1 / 8, 1, 0])
    logits, rewards = jnp.log(jnp.array([0.59, 0.39, 0.02])), jnp.array([1.0, 1.0, 0.0])
    for text, likelier_gains in (("grpo", True), ("uniqueness_aware", True), ("ips_grpo", False)):
        update = mean_update(make(text), logits, rewards, 8)
        assert (update[0] > update[1]) == likelier_gains, text


def test_rare_outcomes_earn_more():
    """Frequencies 1/2, 1/2, 1/4, 1/4."""
    group, half = one_group([0, 0, 0, 0], [5, 5, 3, -1]), np.log(2) / 2
    assert_close(advantages_of("answer_entropy(beta=1.0)", group), [[-half, -half, half, half]])
    assert_close(advantages_of("answer_entropy(beta=1.0, form=gini)", group), [[-1 / 8, -1 / 8, 1 / 8, 1 / 8]])


def test_repeated_outcomes_lose():
    group = one_group([1, 1, 0, 0], [5, 5, 3, 3])
    assert_close(advantages_of("outcome_exploration(weight=1.0)", group), [[3 / 4, 3 / 4, -5 / 4, -5 / 4]])
    group = one_group([1, 1, 1, 1], [5, 5, 5, 3])
    assert_close(advantages_of("outcome_exploration(weight=1.0)", group), [[-1 / 2, -1 / 2, -1 / 2, 0]])


@pytest.mark.parametrize(
    ("bonus", "expected"), [("ucb", [1, 1 / 3**0.5]), ("ucb_con", [0.5, 1 / 3**0.5 - 0.5]), ("ucb_mean", None)]
)
def test_outcomes_of_earlier_batches_count(bonus, expected):
    """In the second batch the prompt's outcome 0 was seen three times and no valid outcome once; outcome 1 is new."""
    objective = make(f"outcome_exploration(weight=1.0, bonus={bonus})")
    batches = [one_group([1, 1, 1, 1], outcomes) for outcomes in ([0, 0, 0, -1], [1, 0, 0, -1])]
    state = objective.init(Sizes(num_prompts=3, num_outcomes=2))
    for batch in batches:
        weights, state, _ = objective.weigh(dataclasses.replace(batch, prompt_index=jnp.array([2])), state)
    found = np.asarray(weights.advantages[0, :, 0])
    once, often = expected or (1 - (2 + 2 / 3**0.5) / 4, 1 / 3**0.5 - (2 + 2 / 3**0.5) / 4)
    assert_close(found, [once, often, often, once])
    table = next(part for part in state if not isinstance(part, tuple))
    np.testing.assert_array_equal(table, [[0, 0, 0], [0, 0, 0], [5, 1, 2]])


def test_a_bonus_for_counts_needs_numbered_outcomes():
    make("outcome_exploration").init(Sizes(3))
    with pytest.raises(ValueError, match="this environment does not number outcomes"):
        make("outcome_exploration(bonus=ucb)").init(Sizes(3))


def tsallis(beta):
    """The mean update of E[r] + beta (1 - sum p^2) with the group's mean as baseline."""

    def value(logits):
        probs = jax.nn.softmax(logits)
        return probs @ REWARDS + beta * (1 - probs @ probs)

    return value


@pytest.mark.parametrize("group", [3, 4, 6])
def test_penalties_on_repetition_are_tsallis_entropies(group):
    """Added to the advantage, beta is half the weight. In the reward, the baseline holds part of every bonus."""

    def same(text, beta):
        update = mean_update(make(text), LOGITS, REWARDS, group)
        expected = (group - 1) / group * jax.grad(tsallis(beta))(LOGITS)
        np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)

    same("tsallis(beta=0.15)", 0.15)
    same("outcome_exploration(weight=0.3, standardise=False)", 0.15)
    same("answer_entropy(beta=0.3, form=gini)", 0.15 * (group - 2) / group)


def test_the_influence_on_a_large_group_climbs_simpsons_diversity():
    """2/G (sum_c q_c^2 - q), up to an error of 1/G^2."""
    counts = np.array([200, 120, 80])
    outcomes = np.repeat(np.arange(3), counts)
    rollouts = rollouts_of(np.zeros((1, 400, 1)), rewards=np.zeros((1, 400)), outcome_id=outcomes[None])
    shares = counts / 400
    expected = 2 / 400 * (shares @ shares - shares[outcomes])
    np.testing.assert_allclose(advantages_of("setpo", rollouts), [expected], atol=2 / 400**2)


def test_counts_of_a_large_group_do_not_overflow():
    """M = 1024^2 + 1 alike pairs; 2 G^3 is beyond 32 bits."""
    group = one_group([1] * 1025, [0] * 1024 + [1])
    pairs, found = 1024**2 + 1, advantages_of("setpo", group)[0]
    np.testing.assert_allclose(found[-1], (pairs - 1) / 1024**2 - pairs / 1025**2, rtol=1e-6)
    np.testing.assert_allclose(found[0], (pairs - 2 * 1024 + 1) / 1024**2 - pairs / 1025**2, rtol=1e-3)


# Differential smoothing


def test_unlikely_answers_gain_if_they_are_correct_and_lose_if_they_are_wrong():
    """Of two tokens each: log mu is log 1/4 and log 1/16."""
    behaviour = np.log(np.array([[[0.5, 0.5], [0.25, 0.25], [0.5, 0.5], [0.25, 0.25]]]))
    group = rollouts_of(behaviour, rewards=np.float32([[1, 1, 0, 0]]))
    found = advantages_of("differential_smoothing(positive=0.5, negative=0.25)", group)
    assert_close(found, [[1 + np.log(2), 1 + np.log(4), -1 - np.log(2) / 2, -1 - np.log(2)]])


def smoothed(logits, positive=0.3, negative=0.2):
    """S(correct) and S(wrong), S = sum p (1 - log p), of the correct outcomes 0, 1, 3 and the wrong outcome 2."""
    log_probs = jax.nn.log_softmax(logits)
    terms = jnp.exp(log_probs) * (1 - log_probs)
    return (jnp.where(REWARDS > 0, positive, -negative) * terms).sum()


def test_the_mean_update_adds_an_entropy_of_the_correct_answers():
    text = "differential_smoothing(positive=0.3, negative=0.2, standardise=False)"
    plain = mean_update(make("dr_grpo"), LOGITS, REWARDS, 4)
    expected = plain + jax.grad(smoothed)(LOGITS)
    np.testing.assert_allclose(mean_update(make(text), LOGITS, REWARDS, 4), expected, atol=1e-6)


def test_ties_are_lost_before_they_return():
    """With many wrong answers the likelier of two correct ones still gains on the other, with few it loses."""

    def gain(wrong):
        logits = jnp.log(jnp.array([0.6 * (1 - wrong), 0.4 * (1 - wrong), wrong]))
        update = mean_update(make("differential_smoothing"), logits, jnp.array([1.0, 1.0, 0.0]), 4)
        return update[0] - update[1]

    assert gain(0.3) > 0.03
    assert gain(0.001) < -0.003
