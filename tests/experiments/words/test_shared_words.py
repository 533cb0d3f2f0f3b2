import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.words.shared_words import DecidedWords, RightWord, SharedTable, Words, moves
from ipsrl.policies.state_table import outcome_probs
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped

WORDS = Words(asked=3, letters=3, length=3, right=2)
POLICY = SharedTable(WORDS.num_observations, WORDS.vocabulary_size, width=5)
PARAMETERS = {"weights": 0.3 * jax.random.normal(jax.random.key(0), (5, 3))}


def test_the_distribution_is_that_of_the_graph():
    found = WORDS.distribution(POLICY, PARAMETERS)
    for prompt in range(WORDS.num_prompts):
        assert found[prompt] == pytest.approx(np.asarray(outcome_probs(WORDS, POLICY, PARAMETERS, prompt)), rel=1e-5)
    start = WORDS.distribution(POLICY, POLICY.init(jax.random.key(0)))
    assert start == pytest.approx(np.full((3, 27), 1 / 27), rel=1e-5)


def test_a_word_is_a_number_with_its_first_letter_first_and_each_prompt_has_its_right_words():
    source = Sampled(WORDS, POLICY, prompts_per_step=3, group_size=8)
    trajectories, outcomes = source(None, Actors(PARAMETERS), Request(0, 0))[1]
    assert np.array_equal(outcomes.outcome_id, trajectories.tokens @ np.array([9, 3, 1]))
    assert WORDS.outcome_names()[9 * 2 + 3 * 0 + 1] == "cab"
    rewards = WORDS.reward_table()
    assert rewards.sum(axis=1).tolist() == [2, 2, 2]
    assert not np.array_equal(rewards[0], rewards[1])
    at = trajectories.prompts.index[:, None], outcomes.outcome_id
    assert np.array_equal(outcomes.rewards, rewards[at])


def test_what_is_learned_at_one_prompt_moves_the_others():
    def first_prompt(parameters):
        return jnp.log(WORDS.distribution(POLICY, parameters)[0, 0])

    step = jax.grad(first_prompt)(PARAMETERS)
    moved = WORDS.distribution(POLICY, jax.tree.map(jnp.add, PARAMETERS, step)) - WORDS.distribution(POLICY, PARAMETERS)
    assert moved[0, 0] > 0.01
    assert jnp.abs(moved[1:]).sum(axis=1).min() > 0.01


def test_reward_and_distance_are_means_over_prompts():
    start = POLICY.init(jax.random.key(0))
    found = moves(WORDS, POLICY, start, start, None)
    assert (found["reward"], found["distance"]) == (pytest.approx(2 / 27, rel=1e-5), 0)
    now, then = WORDS.distribution(POLICY, PARAMETERS), WORDS.distribution(POLICY, start)
    distance = moves(WORDS, POLICY, PARAMETERS, start, None)["distance"]
    assert distance == pytest.approx(float(jnp.maximum(now - then, 0).sum(axis=1).mean()), rel=1e-4)


def test_gradients_of_answers():
    source = Sampled(WORDS, POLICY, prompts_per_step=3, group_size=8)
    trajectories, _ = source(None, Actors(PARAMETERS), Request(0, 0))[1]

    def of_answers(parameters):
        return POLICY.score(parameters, trajectories, 1.0).log_probs.sum(axis=-1)

    expected = np.asarray(jax.jacrev(of_answers)(PARAMETERS)["weights"]).reshape(3, 8, -1)
    assert np.asarray(POLICY.answer_gradients(PARAMETERS, trajectories)) == pytest.approx(expected, abs=1e-4)


def test_two_letters_decide_a_routine_prompt_and_an_expert_knows_the_word_of_a_hopeless_one():
    words = DecidedWords(asked=4)
    rewards = words.reward_table()
    assert rewards.sum(axis=1).tolist() == [81, 81, 1, 1]
    names = [word for word, right in zip(words.outcome_names(), rewards[0], strict=True) if right]
    assert sorted(len(set(letters)) for letters in zip(*names, strict=True)) == [1, 1, 3, 3, 3, 3]

    policy = SharedTable(words.num_observations, words.vocabulary_size)
    experts = OffPolicyAnswers(1, at_most=0.0, refine=RightWord())
    parameters = policy.init(jax.random.key(0))
    for_each = wrapped(Sampled(words, policy, prompts_per_step=4, group_size=2), [experts])
    state = for_each.init(Actors(parameters), 0, None)
    _, (trajectories, outcomes), _ = for_each(state, Actors(parameters), Request(0, 0))
    anchored = np.asarray(trajectories.off_policy)
    assert anchored[:, 0].any()
    assert not anchored[:, 1].any()
    assert np.array_equal(outcomes.rewards[anchored], np.ones(anchored.sum()))
    assert np.all(np.asarray(outcomes.rewards).max(axis=-1) == 1)
    # Its probability is that of the word under the policy that samples.
    assert np.asarray(trajectories.behaviour_log_probs.sum(axis=-1)) == pytest.approx(
        np.full((4, 2), -6 * np.log(3)), rel=1e-5
    )
    scores = policy.score(parameters, trajectories, 1.0).log_probs
    assert np.asarray(scores) == pytest.approx(np.asarray(trajectories.behaviour_log_probs), rel=1e-5)
