"""Promises of every enumerable environment, checked by brute force over all of its trajectories."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit, VectorBandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.policy import distribution
from ipsrl.structures import Prompts, Trajectories

pytestmark = pytest.mark.core

ENVIRONMENTS = [
    Bandit((0.3, -1.0, 2.0)),
    Bandit(((1.0, 0.0), (0.25, 0.5), (3.0, 4.0))),
    VectorBandit(((1.0, 0.0), (0.25, 0.5), (0.0, 2.0))),
    Tree(),
    Tree(depth=4, longest_step=2, rewards=(1.0, 0.0, 2.0, 0.5, 0.25)),
    Hypergrid(dimensions=2, side=3),
    Hypergrid(dimensions=3, side=2),
]
every_environment = pytest.mark.parametrize("environment", ENVIRONMENTS, ids=repr)


@functools.cache
def tables(environment):
    """Legal moves and next states `[S + K, V]`, and ends `[S + K]`, from the functions that the sampler maps."""
    states = jnp.arange(environment.num_observations + environment.num_outcomes)
    tokens = jnp.arange(environment.vocabulary_size)
    step = jax.vmap(jax.vmap(environment.step, (None, 0)), (0, None))
    legal, following, ends = jax.jit(
        lambda: (jax.vmap(environment.legal)(states), step(states, tokens), jax.vmap(environment.finished)(states))
    )()
    return np.asarray(legal), np.asarray(following), np.asarray(ends)


@functools.cache
def all_walks(environment, prompt=0):
    """Every walk of a prompt: [(states, tokens)], the last state included."""
    legal, following, ends = tables(environment)
    walks, open_walks = [], [([int(environment.reset(jax.random.key(0), jnp.asarray(prompt), 0))], [])]
    while open_walks:
        states, tokens = open_walks.pop()
        if ends[states[-1]]:
            walks.append((states, tokens))
            continue
        for token in np.flatnonzero(legal[states[-1]]).tolist():
            open_walks.append(([*states, int(following[states[-1], token])], [*tokens, token]))
    return walks


@functools.cache
def outcomes_of_all_walks(environment, prompt=0):
    return jax.jit(environment.verify)(as_trajectories(environment, all_walks(environment, prompt), prompt))


def as_trajectories(environment, walks, prompt=0):
    """All walks of a prompt as one group, padded with zeros."""
    shape = (1, len(walks), environment.max_tokens)
    observations, tokens, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, bool)
    for number, (walk_states, walk_tokens) in enumerate(walks):
        length = len(walk_tokens)
        observations[0, number, :length] = walk_states[:-1]
        tokens[0, number, :length] = walk_tokens
        mask[0, number, :length] = True
    return Trajectories(
        prompts=environment.prompts(jnp.array([prompt])),
        observations=jnp.asarray(observations),
        tokens=jnp.asarray(tokens),
        token_mask=jnp.asarray(mask),
        legal_actions=None,
        behaviour_log_probs=jnp.zeros(shape),
        behaviour_entropy=jnp.zeros(shape),
        truncated=jnp.zeros(shape[:2], bool),
    )


def random_table(environment, seed):
    states = jnp.arange(environment.num_observations)
    logits = 2 * jax.random.normal(jax.random.key(seed), (len(states), environment.vocabulary_size))
    return distribution(logits, environment.legal(states), 1.0)


def walk_log_probs(table, walks):
    table = np.asarray(table, np.float64)
    return np.array([table[states[:-1], tokens].sum() for states, tokens in walks])


@every_environment
def test_verify_gives_the_outcome_where_the_walk_ended_and_its_reward(environment):
    for prompt in range(environment.num_prompts):
        walks = all_walks(environment, prompt)
        outcomes = outcomes_of_all_walks(environment, prompt)
        reached = np.array([states[-1] for states, _ in walks]) - environment.num_observations
        np.testing.assert_array_equal(outcomes.outcome_id[0], reached)
        np.testing.assert_array_equal(outcomes.rewards[0], environment.outcome_space(prompt).rewards[reached])
        assert set(reached) == set(range(environment.num_outcomes))
        assert outcomes.rewards.dtype == jnp.float32
        assert outcomes.outcome_id.dtype == jnp.int32
        assert outcomes.log_backward.dtype == jnp.float32


def test_arms_with_several_rewards_earn_their_mean():
    bandit = VectorBandit(((1.0, 0.0, 2.0), (0.25, 0.5, 0.0)))
    np.testing.assert_array_equal(bandit.outcome_space(0).rewards, [1.0, 0.25])
    outcomes = outcomes_of_all_walks(bandit)
    np.testing.assert_array_equal(outcomes.reward_parts, np.float32(bandit.rewards)[outcomes.outcome_id])


@every_environment
def test_every_move_has_its_state_its_backward_probability_and_whether_it_was_a_choice(environment):
    """Against the walks themselves: parents are counted in the moves of the prompt, choices in the legal moves."""
    legal, _, _ = tables(environment)

    def moves(states, tokens):
        return zip(states[:-1], tokens, states[1:], strict=True)

    for prompt in range(environment.num_prompts):
        own = {edge for walk in all_walks(environment, prompt) for edge in moves(*walk)}
        outcomes = jax.device_get(outcomes_of_all_walks(environment, prompt))
        for number, (states, tokens) in enumerate(all_walks(environment, prompt)):
            length = len(tokens)
            padding = [0] * (environment.max_tokens - length)
            parents = [len({edge for edge in own if edge[2] == state}) for state in states[1:]]
            choices = [bool(legal[state].sum() > 1) for state in states[:-1]]
            assert outcomes.next_states[0, number].tolist() == [*states[1:], *padding]
            assert outcomes.planning_mask[0, number].tolist() == [*choices, *map(bool, padding)]
            expected = [*(-np.log(parents)), *padding]
            np.testing.assert_allclose(outcomes.step_log_backward[0, number], expected, rtol=1e-6, atol=1e-7)
            assert outcomes.log_backward[0, number] == pytest.approx(sum(expected), abs=1e-6)
    assert (outcomes.next_states.dtype, outcomes.planning_mask.dtype) == (jnp.int32, bool)


@every_environment
def test_an_empty_walk_has_no_outcome_and_no_reward(environment):
    outcomes = environment.verify(as_trajectories(environment, [([0], []), all_walks(environment)[0]]))
    assert outcomes.outcome_id.tolist() == [[-1, all_walks(environment)[0][0][-1] - environment.num_observations]]
    assert (outcomes.rewards[0, 0], outcomes.log_backward[0, 0]) == (0, 0)


@every_environment
def test_no_walk_is_longer_than_max_tokens_and_one_is_as_long(environment):
    assert max(len(tokens) for _, tokens in all_walks(environment)) == environment.max_tokens


@every_environment
def test_terminal_distribution_is_the_sum_over_all_walks(environment):
    policies = jnp.stack([random_table(environment, seed) for seed in range(2)])
    for prompt in range(environment.num_prompts):
        walks = all_walks(environment, prompt)
        reached = [states[-1] - environment.num_observations for states, _ in walks]
        exact = [np.bincount(reached, np.exp(walk_log_probs(policy, walks))) for policy in policies]
        distribution_of = functools.partial(environment.terminal_distribution, prompt=prompt)
        np.testing.assert_allclose(jax.jit(jax.vmap(distribution_of))(policies), exact, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(distribution_of)(policies[0]), exact[0], rtol=1e-5)
    np.testing.assert_allclose(np.sum(exact, axis=1), 1.0, rtol=1e-5)


@every_environment
def test_gradient_of_terminal_distribution_is_finite_and_right(environment):
    states = jnp.arange(environment.num_observations)
    legal = environment.legal(states)
    values = jnp.arange(1.0, environment.num_outcomes + 1)

    def expected_value(logits):
        return environment.terminal_distribution(distribution(logits, legal, 1.0)) @ values

    key, direction_key = jax.random.split(jax.random.key(3))
    logits = jax.random.normal(key, legal.shape)
    direction = jax.random.normal(direction_key, legal.shape)
    points = jnp.stack([logits, logits + 1e-2 * direction, logits - 1e-2 * direction])
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(expected_value)))(points)
    gradient = np.asarray(gradients[0])
    assert np.isfinite(gradient).all()
    assert (gradient[~np.asarray(legal)] == 0).all()
    np.testing.assert_allclose(np.vdot(gradient, direction), (values[1] - values[2]) / 2e-2, rtol=2e-2, atol=2e-3)


@every_environment
def test_finished_walks_show_an_observation_in_range(environment):
    ends = environment.num_observations + jnp.arange(environment.num_outcomes)
    assert environment.finished(ends).all()
    assert (environment.observe(ends) < environment.num_observations).all()


@pytest.mark.parametrize("environment", [env for env in ENVIRONMENTS if env.max_tokens > 1], ids=repr)
def test_a_walk_that_was_cut_off_has_no_outcome(environment):
    states, tokens = max(all_walks(environment), key=lambda walk: len(walk[1]))
    outcomes = jax.jit(environment.verify)(as_trajectories(environment, [(states[:-1], tokens[:-1])]))
    assert outcomes.outcome_id.tolist() == [[-1]]
    assert outcomes.rewards.tolist() == [[0.0]]
    assert jnp.isfinite(outcomes.log_backward).all()


@every_environment
def test_environment_is_hashable_and_names_its_outcomes(environment):
    assert hash(environment) == hash(type(environment)(**vars(environment)))
    provided = {"log_backward", "step_log_backward", "next_states", "planning_mask"}
    assert environment.optional_fields - {"reward_parts"} == provided
    assert not environment.verifies_on_host
    prompts = environment.prompts(jnp.arange(environment.num_prompts))
    assert isinstance(prompts, Prompts)
    assert prompts.tokens.shape == (environment.num_prompts, environment.prompt_length) == prompts.mask.shape
    space = environment.outcome_space(0)
    assert len(set(space.names)) == len(space.names) == environment.num_outcomes == len(space.rewards)
    assert space.rewards.dtype == np.float32
