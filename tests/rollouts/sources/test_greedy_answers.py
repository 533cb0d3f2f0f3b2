"""Greedy answers: their rewards, what they cost, and runs of the objective that needs them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Actors, Sampled, wrapped
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.sampled_groups import steps_of

BANDIT = Bandit(((1.0, 0.0, 0.5), (0.25, 2.0, 0.0), (0.0, 0.0, 3.0)))
ON_BANDIT = Tabular(BANDIT.num_observations, BANDIT.vocabulary_size)
ARMS = {"logits": jnp.array([[0.0, 0.0, 0.1], [0.3, 0.2, 0.1], [0.0, 0.5, 0.0]])}
EARNED = np.array([0.5, 0.25, 0.0])
"""The reward of the likeliest arm of each prompt."""


def asked(source, parameters, reward=None, step=0):
    groups, metrics, _ = steps_of(source, step + 1, Actors(parameters), reward)[step]
    return groups, metrics


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(temperature=2.0), Decoding(top_k=2)])
def test_the_likeliest_arm_of_each_prompt_is_tried_once(decoding):
    sampled = Sampled(BANDIT, ON_BANDIT, 6, 4, decoding)
    for step in range(3):
        (trajectories, outcomes), metrics = asked(GreedyAnswers().around(sampled), ARMS, step=step)
        np.testing.assert_array_equal(outcomes.greedy_rewards, EARNED[trajectories.prompts.index])
        (alone, without), _ = asked(sampled, ARMS, step=step)
        assert without.greedy_rewards is None
        np.testing.assert_array_equal(trajectories.tokens, alone.tokens)
        np.testing.assert_array_equal(outcomes.rewards, without.rewards)
        assert metrics["greedy_reward"] == pytest.approx(EARNED[trajectories.prompts.index].mean())
        assert metrics["sampled_reward"] == pytest.approx(without.rewards.mean())
        assert (metrics["trajectories_sampled"], metrics["tokens_sampled"]) == (30, 30)


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_of_several_tokens_is_greedy_at_each(seed):
    """Its outcome is that of the policy whose one action everywhere is the likeliest."""
    tree = Tree(depth=4, longest_step=2, rewards=(1.0, 0.0, 2.0, 0.5, 0.25))
    policy = Tabular(tree.num_observations, tree.vocabulary_size)
    logits = jax.random.normal(jax.random.key(seed), (tree.num_observations, tree.vocabulary_size))
    state, length, greedy = tree.reset(jax.random.key(0), jnp.int32(0), 0), 0, jnp.full_like(logits, -jnp.inf)
    while not tree.finished(state):
        token = jnp.where(tree.legal(state), logits[tree.observe(state)], -jnp.inf).argmax()
        greedy = greedy.at[tree.observe(state), token].set(0.0)
        state, length = tree.step(state, token), length + 1
    earned = tree.terminal_distribution(greedy) @ tree.outcome_space(0).rewards
    source = GreedyAnswers().around(Sampled(tree, policy, 2, 3))
    (trajectories, outcomes), metrics = asked(source, {"logits": logits})
    np.testing.assert_array_equal(outcomes.greedy_rewards, [earned, earned])
    assert metrics["tokens_sampled"] == trajectories.token_mask.sum() + 2 * length


def test_the_reward_of_the_run_rewards_them():
    table = RewardTable(jnp.arange(9.0).reshape(3, 3))
    (trajectories, outcomes), _ = asked(GreedyAnswers().around(Sampled(BANDIT, ON_BANDIT, 5, 2)), ARMS, table)
    np.testing.assert_array_equal(outcomes.greedy_rewards, np.array([2, 3, 7])[trajectories.prompts.index])


def test_it_is_around_all_other_wrappers():
    sampled = Sampled(BANDIT, ON_BANDIT, 6, 4)
    source = wrapped(sampled, [GreedyAnswers(), DynamicSampling(3), OffPolicyAnswers(2)])
    (trajectories, outcomes), metrics = asked(source, ARMS)
    np.testing.assert_array_equal(outcomes.greedy_rewards, EARNED[trajectories.prompts.index])
    inside = asked(source.inner, ARMS)[1]
    assert metrics["tokens_sampled"] == inside["tokens_sampled"] + 6
    for other in (DynamicSampling(), OffPolicyAnswers(2), DiversityFilter()):
        with pytest.raises(ValueError, match=f"must be the outermost wrapper, but {type(other).__name__} is around it"):
            wrapped(sampled, [other, GreedyAnswers()])


@pytest.mark.slow
def test_remax_trains_on_them():
    """The expected steps are plain gradient steps on the mean of (r - greedy reward) log pi over the groups."""
    settings = TrainSettings(
        2, 6, 4, optimizer="sgd", learning_rate=0.1, max_gradient_norm=None, wrappers=(GreedyAnswers(),)
    )
    with jax.set_mesh(make_mesh("replica:-1")):
        learner = Trainer(BANDIT, ON_BANDIT, objectives.make("remax"), settings)
        learner.check()
        state = dataclasses.replace(learner.init(0), parameters=jax.tree.map(jnp.copy, ARMS))
        (trajectories, outcomes), _ = asked(learner.groups_from, ARMS)
        after, metrics = learner.step(state)
    prompts, arms = np.asarray(trajectories.prompts.index), np.asarray(outcomes.outcome_id)
    advantages = np.asarray(outcomes.rewards) - EARNED[prompts][:, None]
    expected = np.zeros((3, 3))
    for prompt, tried, worth in zip(prompts, arms, advantages, strict=True):
        scores = np.eye(3)[tried] - jax.nn.softmax(ARMS["logits"][prompt])
        expected[prompt] += 0.1 * (worth[:, None] * scores).sum(axis=0) / arms.size
    assert np.abs(expected).max() > 0.001
    np.testing.assert_allclose(after.parameters["logits"] - ARMS["logits"], expected, atol=1e-6)
    assert metrics["greedy_reward"] == pytest.approx(EARNED[prompts].mean())
