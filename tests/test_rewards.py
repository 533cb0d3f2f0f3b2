"""Rewards apart from outcomes: their samples follow what they declare, and the expected update is exact over noise."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import (
    FormulaReward,
    MatchedOutcomes,
    NoisyVerifier,
    RewardTable,
    checksum,
    rewarded,
)
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Rollouts

ARMS = Bandit(((1.0, 0.0, 0.0), (0.0, 1.0, 1.0)))
POLICY = Tabular(ARMS.num_observations, ARMS.vocabulary_size)


@pytest.fixture(scope="module")
def groups():
    """Both prompts, one of them twice: trajectories and outcomes."""
    parameters = POLICY.init(jax.random.key(0))
    prompts = ARMS.prompts(jnp.array([0, 1, 0]))
    trajectories = sample_groups(ARMS, POLICY, parameters, prompts, jax.random.key(1), 4000)
    return trajectories, ARMS.verify(trajectories)


def test_without_a_reward_the_environment_decides(groups):
    trajectories, outcomes = groups
    assert rewarded(None, trajectories, outcomes, jax.random.key(0)) == (outcomes, None)


def test_a_table_and_a_formula(groups):
    trajectories, outcomes = groups
    table = jnp.array([[3.0, 2.0, 1.0], [0.5, -1.0, 7.0]])
    found, following = rewarded(RewardTable(table), trajectories, outcomes, jax.random.key(0))
    index = np.asarray(trajectories.prompts.index)
    np.testing.assert_array_equal(found.rewards, np.asarray(table)[index[:, None], outcomes.outcome_id])
    np.testing.assert_array_equal(following.table, table)
    same = FormulaReward(lambda trajectories, outcomes: table[trajectories.prompts.index[:, None], outcomes.outcome_id])
    np.testing.assert_array_equal(rewarded(same, trajectories, outcomes, jax.random.key(0))[0].rewards, found.rewards)
    none = dataclasses.replace(outcomes, outcome_id=jnp.full_like(outcomes.outcome_id, -1))
    assert not rewarded(RewardTable(table), trajectories, none, jax.random.key(0))[0].rewards.any()


def test_an_outcome_beyond_the_table_earns_nothing(groups):
    trajectories, outcomes = groups
    table = jnp.array([[3.0, 2.0, 1.0], [0.5, -1.0, 7.0]])
    beyond = dataclasses.replace(outcomes, outcome_id=outcomes.outcome_id.at[:, ::2].add(3))
    found = np.asarray(rewarded(RewardTable(table), trajectories, beyond, jax.random.key(0))[0].rewards)
    inside = np.asarray(rewarded(RewardTable(table), trajectories, outcomes, jax.random.key(0))[0].rewards)
    assert not found[:, ::2].any()
    np.testing.assert_array_equal(found[:, 1::2], inside[:, 1::2])


def test_what_is_right_is_said_by_whoever_gives_the_rewards(groups):
    """A verifier judges by the environment's threshold, and has one of its own."""
    trajectories, outcomes = groups
    graded = dataclasses.replace(outcomes, rewards=jnp.where(outcomes.rewards == 1, 5.0, 2.0), right_above=3.0)
    right = np.asarray(outcomes.rewards) == 1
    for reward, right_above in [
        (None, 3.0),
        (FormulaReward(lambda trajectories, outcomes: outcomes.rewards, threshold=3.0), 3.0),
        (FormulaReward(lambda trajectories, outcomes: outcomes.rewards - 2), 0.0),
        (RewardTable(0.5 * jnp.asarray(ARMS.rewards)), 0.0),
        (MatchedOutcomes(jnp.full((2, 3), 1 / 3), 0.5 * jnp.asarray(ARMS.rewards)), 0.0),
        (NoisyVerifier(), 0.0),
        (NoisyVerifier(verifier=NoisyVerifier()), 0.0),
    ]:
        found = rewarded(reward, trajectories, graded, jax.random.key(0))[0]
        assert found.right_above == right_above
        np.testing.assert_array_equal(found.right, right)
    with pytest.raises(ValueError, match=r"threshold is -1\.0, it must not be negative"):
        FormulaReward(lambda trajectories, outcomes: outcomes.rewards, -1.0)


def test_a_noisy_verifier_errs_as_often_as_declared_and_for_each_prompt_apart(groups):
    trajectories, outcomes = groups
    false_positive, false_negative = np.array([0.1, 0.4]), 0.25
    reward = NoisyVerifier(false_positive, false_negative)
    noisy = np.asarray(rewarded(reward, trajectories, outcomes, jax.random.key(2))[0].rewards)
    assert set(np.unique(noisy)) == {0.0, 1.0}
    right = np.asarray(outcomes.rewards) == 1
    for row, prompt in enumerate([0, 1, 0]):
        assert noisy[row][right[row]].mean() == pytest.approx(1 - false_negative, abs=0.05)
        assert noisy[row][~right[row]].mean() == pytest.approx(false_positive[prompt], abs=0.05)
    assert (noisy[0] != noisy[2]).any()
    again = rewarded(reward, trajectories, outcomes, jax.random.key(2))[0].rewards
    np.testing.assert_array_equal(again, noisy)


def test_noise_on_noise(groups):
    trajectories, outcomes = groups
    twice = NoisyVerifier(0.1, 0.2, NoisyVerifier(0.3, 0.0))
    _, probs = twice.possible(trajectories, outcomes)
    accepted = np.where(np.asarray(outcomes.rewards) == 1, 0.8, 0.3 * 0.8 + 0.7 * 0.1)
    np.testing.assert_allclose(probs[..., 1], accepted, rtol=1e-6)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, rtol=1e-6)


def test_matched_outcomes_learns_the_experts_distribution():
    """The policy follows the reward at once, so the weights become those of the expert."""
    expert, bandit = jnp.array([[0.7, 0.2, 0.1]]), Bandit((0.0, 0.0, 0.0))
    policy, reward = Tabular(1, 3), MatchedOutcomes(expert, jnp.zeros((1, 3)), rate=0.5)

    @jax.jit
    def step(reward, key):
        trajectories = sample_groups(
            bandit, policy, {"logits": reward.weights}, bandit.prompts(jnp.array([0])), key, 2000
        )
        return rewarded(reward, trajectories, bandit.verify(trajectories), key)[1]

    for number in range(60):
        reward = step(reward, jax.random.key(number))
    np.testing.assert_allclose(jax.nn.softmax(reward.weights), expert, atol=0.02)


@pytest.mark.parametrize("text", ["grpo", "ips_grpo", "reinforce"])
def test_the_expected_update_is_the_mean_over_the_noise(text):
    """Against the sum over all errors in a group of three, by hand."""
    objective, logits = objectives.make(text), jnp.array([0.3, -0.2])
    rates = {"false_positive_rate": 0.2, "false_negative_rate": 0.3}
    found = expected_update(objective, logits, NoisyVerifier(**rates, verifier=RewardTable(jnp.array([[1.0, 0.0]]))), 3)
    probs, bandit, policy = np.asarray(jax.nn.softmax(logits)), Bandit((0.0, 0.0)), Tabular(1, 2)
    every = itertools.product(itertools.product((0, 1), repeat=3), itertools.product((0.0, 1.0), repeat=3))
    arms, rewards = map(np.array, zip(*every, strict=True))
    accepted = np.array([0.7, 0.2])[arms]
    chances = np.where(rewards, accepted, 1 - accepted) * probs[arms]
    updates = jax.vmap(functools.partial(update_of, objective, bandit, policy, logits))(arms, rewards)
    np.testing.assert_allclose(found, chances.prod(axis=1) @ updates, atol=1e-5)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def update_of(objective, bandit, policy, logits, arms, rewards):
    """Minus the gradient of the loss of one group."""
    trajectories = sample_groups(
        bandit, policy, {"logits": logits[None]}, bandit.prompts(jnp.array([0])), jax.random.key(0), 3
    )
    log_probs = jax.nn.log_softmax(logits)
    tokens = arms[None, :, None]
    trajectories = dataclasses.replace(trajectories, tokens=tokens, behaviour_log_probs=log_probs[tokens])
    outcomes = dataclasses.replace(bandit.verify(trajectories), rewards=rewards[None])
    return one_update(objective, policy, logits, trajectories, outcomes)


def one_update(objective, policy, logits, trajectories, outcomes):
    rollouts = Rollouts.of(trajectories, outcomes)
    sizes = Bandit((0.0, 0.0)).sizes

    def loss(logits):
        output = objective(policy.score({"logits": logits[None]}, trajectories, 1.0), rollouts, sizes)
        return output.loss_sum / output.count

    return -jax.grad(loss)(logits)


def test_a_reward_inside_another_learns():
    bandit = Bandit((0.0, 0.0))
    inner = MatchedOutcomes(jnp.array([[0.2, 0.8]]), jnp.zeros((1, 2)))
    trajectories = sample_groups(
        bandit, Tabular(1, 2), {"logits": jnp.zeros((1, 2))}, bandit.prompts(jnp.array([0])), jax.random.key(0), 3
    )
    outcomes = bandit.verify(trajectories)
    reward = NoisyVerifier(0.1, 0.1, inner)
    assert reward.learns
    expected = inner.learned(trajectories, outcomes).weights
    assert np.abs(expected).max() > 0.1
    np.testing.assert_array_equal(reward.learned(trajectories, outcomes).verifier.weights, expected)
    assert not NoisyVerifier(0.1, 0.1, RewardTable(jnp.zeros((1, 2)))).learns


def test_the_checksum_tells_rewards_apart():
    """Numbers, tables, formulas and kinds; a reward that learns keeps its own however far it is."""
    table = jnp.array([[1.0, 0.0]])
    rewards = [
        None,
        NoisyVerifier(0.1),
        NoisyVerifier(0.2),
        NoisyVerifier(0.0, 0.1),
        RewardTable(table),
        RewardTable(1 - table),
        NoisyVerifier(verifier=RewardTable(table)),
        FormulaReward(update_of),
        FormulaReward(one_update),
        FormulaReward(functools.partial(update_of, 1)),
        FormulaReward(functools.partial(update_of, 2)),
        RewardTable(table.astype(jnp.bfloat16)),
    ]
    assert len({checksum(reward) for reward in rewards}) == len(rewards)
    assert checksum(RewardTable(table)) == checksum(RewardTable(np.asarray(table)))
    begun = MatchedOutcomes(table, jnp.zeros((1, 2)))
    assert checksum(begun) == checksum(dataclasses.replace(begun, weights=table))
    assert checksum(NoisyVerifier(0.1, verifier=begun)) != checksum(NoisyVerifier(0.2, verifier=begun))


def test_refusals():
    logits = jnp.zeros(2)
    with pytest.raises(
        ValueError, match="the reward reads those of the environment, and there are none: give it verifier="
    ):
        expected_update(objectives.make("grpo"), logits, NoisyVerifier(0.1, 0.1), 2)
    for reads in (
        NoisyVerifier(0.0, 0.0, NoisyVerifier(0.1, 0.2)),
        FormulaReward(lambda answers, outcomes: outcomes.rewards),
    ):
        with pytest.raises(ValueError, match="the reward reads those of the environment, and there are none"):
            expected_update(objectives.make("grpo"), logits, reads, 2)
    with pytest.raises(ValueError, match=r"the table of rewards must have the shape \[1, 2\], not \[1, 3\]"):
        expected_update(objectives.make("grpo"), logits, RewardTable(jnp.ones((1, 3))), 2)
    with pytest.raises(ValueError, match=r"false_negative_rate must lie between 0 and 1, not"):
        NoisyVerifier(0.1, jnp.array([2.0]))
