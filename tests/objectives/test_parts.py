"""Parts of objectives, by numbers derived by hand from the papers' formulas."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from groups import bandit_rollouts, random_rollouts
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.tree import Tree
from ipsrl.objectives import make
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.aggregation import SequenceMean, SequenceSum, TokenMean
from ipsrl.objectives.objective import all_equal
from ipsrl.objectives.penalties import EntropyBonus, KullbackLeibler
from ipsrl.objectives.reward_shaping import InverseFrequency, InverseProbability, outcome_frequency
from ipsrl.objectives.reweighting import AnswerConfidence, low_probability_confidence
from ipsrl.objectives.surrogates import ClippedRatio, PolicyGradient
from ipsrl.policies.tabular import Tabular
from ipsrl.structures import PolicyScores, Prompts, Rollouts, Trajectories


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6)


def rollouts_of(behaviour, mask=None, **fields):
    """Rollouts with the given log-probabilities `[P, G, T]`; rewards are 1 and outcomes 0 unless given."""
    behaviour = jnp.asarray(behaviour, jnp.float32)
    group_shape = behaviour.shape[:2]
    defaults = {"rewards": jnp.ones(group_shape), "outcome_id": jnp.zeros(group_shape, jnp.int32)}
    return Rollouts(
        prompt_index=jnp.arange(group_shape[0]),
        tokens=jnp.zeros(behaviour.shape, jnp.int32),
        token_mask=jnp.ones(behaviour.shape, bool) if mask is None else jnp.asarray(mask, bool),
        behaviour_log_probs=behaviour,
        truncated=jnp.zeros(group_shape, bool),
        **defaults | {name: jnp.asarray(values) for name, values in fields.items()},
    )


# Advantages


@pytest.mark.parametrize(
    ("part", "first", "second"),
    [
        (NoBaseline(), [1, 0, 0, 1], [1, 1, 1, 0]),
        (GroupMean(), [0.5, -0.5, -0.5, 0.5], [0.25, 0.25, 0.25, -0.75]),
        (GroupMean(limit=0.4), [0.4, -0.4, -0.4, 0.4], [0.25, 0.25, 0.25, -0.4]),
        (GroupMeanStd(), [1, -1, -1, 1], [0.57735, 0.57735, 0.57735, -1.73205]),
        (GroupMeanStd(limit=1.5), [1, -1, -1, 1], [0.57735, 0.57735, 0.57735, -1.5]),
        (GroupMeanStd(unbiased=True), [0.866025, -0.866025, -0.866025, 0.866025], [0.5, 0.5, 0.5, -1.5]),
    ],
)
def test_advantages(part, first, second):
    rewards = jnp.array([[1.0, 0, 0, 1], [1, 1, 1, 0]])
    assert_close(part(rewards, rollouts_of(np.zeros((2, 4, 1)))), [first, second])


def test_rewards_that_tie_but_for_rounding_are_equal():
    """0.9 / 0.6 and 0.6 / 0.4 are both 1.5; as float32 they differ in the last bit, and a std would make that 1.2."""
    tie = jnp.array([[0.9, 0.9, 0.9, 0.6, 0.6]]) / jnp.array([[0.6, 0.6, 0.6, 0.4, 0.4]])
    assert tie[0, 0] != tie[0, -1]
    assert all_equal(tie).all()
    assert not all_equal(jnp.array([[1.0, 1.0 + 2e-6], [0.0, 1e-30], [-1e-30, 0.0]])).any()
    for part in (GroupMean(), GroupMeanStd()):
        assert not part(tie, rollouts_of(np.zeros((1, 5, 1)))).any()


def test_degenerate_groups_are_counted():
    rollouts, _ = random_rollouts()
    rewards = jnp.array([[0.1] * 4, [0.1, 0.1, 0.2, 0.1], [0.0] * 4])
    objective = make("grpo")
    _, _, metrics = objective.weigh(dataclasses.replace(rollouts, rewards=rewards), objective.init(3))
    assert tuple(map(float, metrics["degenerate_groups"])) == (2.0, 3.0)


# Inverse frequency


def test_outcome_frequency_counts_each_sample_in_its_own_group():
    ids = jnp.array([[3, 3, 3, 7], [0, -1, 2, -1]])
    assert_close(outcome_frequency(ids), [[0.75, 0.75, 0.75, 0.25], [0.25, 0.5, 0.25, 0.5]])


@pytest.mark.parametrize(
    ("alpha", "floor", "expected"),
    [
        (1.0, 0.0, [4 / 3, 4 / 3, 4 / 3, 8]),
        (2.0, 0.0, [16 / 9, 16 / 9, 16 / 9, 32]),
        (0.5, 0.5, [(4 / 3) ** 0.5] * 3 + [2 * 2**0.5]),
        (0.0, 0.9, [1, 1, 1, 2]),
    ],
)
def test_inverse_frequency(alpha, floor, expected):
    rollouts = rollouts_of(np.zeros((1, 4, 1)), outcome_id=[[5, 5, 5, 1]])
    assert_close(InverseFrequency(alpha, floor)(jnp.array([[1.0, 1, 1, 2]]), rollouts), [expected])


def test_a_floor_up_to_one_sample_is_inert():
    """phat is at least 1/G: floors up to that give the same bits, a larger one does not."""
    rollouts, _ = random_rollouts(5, prompts=16, group=8)

    def shaped(floor):
        return np.asarray(InverseFrequency(floor=floor)(rollouts.rewards, rollouts))

    assert (shaped(1 / 8) == shaped(0.0)).all()
    assert (shaped(0.01) == shaped(0.0)).all()
    assert (shaped(0.2) != shaped(0.0)).any()


# Inverse probability


def every_walk(environment, parameters, policy):
    """Rollouts of one prompt whose group is every walk of the tree, each once."""
    walks = [((), ())]
    while any(not environment.finished(state_of(environment, walk)) for walk in walks):
        walks = [longer for walk in walks for longer in continued(environment, walk)]
    length = environment.max_tokens
    mask = np.array([[token < len(walk[0]) for token in range(length)] for walk in walks])[None]

    def padded(part):
        return jnp.array([[*walk[part], *[0] * (length - len(walk[part]))] for walk in walks], jnp.int32)[None]

    tokens, observations = padded(0), padded(1)
    trajectories = Trajectories(
        prompts=environment.prompts(jnp.zeros(1, jnp.int32)),
        observations=observations,
        tokens=tokens,
        token_mask=jnp.asarray(mask),
        legal_actions=environment.legal(observations),
        behaviour_log_probs=jnp.zeros(tokens.shape),
        truncated=jnp.zeros(tokens.shape[:2], bool),
    )
    log_probs = policy.score(parameters, trajectories, 1.0).log_probs
    trajectories = dataclasses.replace(trajectories, behaviour_log_probs=log_probs)
    return Rollouts.of(trajectories, environment.verify(trajectories))
