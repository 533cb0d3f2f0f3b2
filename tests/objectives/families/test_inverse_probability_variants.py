import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.tree import Tree
from ipsrl.objectives.catalog.inverse_probability import (
    InverseMovingFrequency,
    InverseProbability,
    InverseProbabilityLearned,
)
from ipsrl.structures import Sizes
from tests.objectives.groups import assert_close, every_walk, random_rollouts, rollouts_of, sizes


def groups(*outcomes, prompts=None):
    ids = np.array(outcomes)
    rollouts = rollouts_of(np.zeros((*ids.shape, 1)), outcome_id=ids)
    return rollouts if prompts is None else dataclasses.replace(rollouts, prompt_index=jnp.array(prompts))


def test_moving_frequencies():
    part = InverseMovingFrequency(rate=0.25)
    state = part.init(Sizes(2, num_outcomes=2))
    assert state.shape == (2, 3)
    first = groups([0, 0, 0, 1])
    shaped, state = part.update_state(first.rewards, first, state)
    assert_close(state, [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]])
    assert_close(shaped, [[4 / 3, 4 / 3, 4 / 3, 4.0]])
    second = groups([1, 1, -1, -1])
    shaped, state = part.update_state(second.rewards, second, state)
    assert_close(state, [[0.5625, 0.3125, 0.125], [0.0, 0.0, 0.0]])
    assert_close(shaped, [[3.2, 3.2, 8.0, 8.0]])


def test_groups_of_one_prompt_share_their_moving_frequency():
    part = InverseMovingFrequency(alpha=2.0, floor=0.3)
    rollouts = groups([0, 0], [1, 1], [0, 1], prompts=[1, 0, 1])
    shaped, state = part.update_state(rollouts.rewards, rollouts, part.init(Sizes(2, num_outcomes=2)))
    assert_close(state, [[0.0, 1.0, 0.0], [0.75, 0.25, 0.0]])
    assert_close(shaped, [[16 / 9, 16 / 9], [1.0, 1.0], [16 / 9, 1 / 0.09]])


TREE = Tree()


def sampled_walks(seed, prompts=40, group=50):
    """Groups of walks that the random policy of `every_walk` takes."""
    every = every_walk(TREE)
    chance = np.exp(np.asarray(every.behaviour_log_probs, np.float64).sum(axis=-1))[0]
    chosen = np.random.default_rng(seed).choice(len(chance), (prompts, group), p=chance / chance.sum())
    of_answers = {name: values for name, values in vars(every).items() if getattr(values, "ndim", 0) > 1}
    taken = {name: values[0, chosen] for name, values in of_answers.items()}
    return dataclasses.replace(every, **taken, prompt_index=jnp.zeros(prompts, jnp.int32))


def earned_and_spread(rollouts, shaped, log_mean):
    """For each outcome: sum of P w, and the variance of w among the walks that lead there, over its squared mean."""
    chance = np.exp(np.asarray(rollouts.behaviour_log_probs, np.float64).sum(axis=-1))[0]
    weight = np.asarray(shaped, np.float64)[0] * np.exp(float(log_mean[0]))
    outcomes = np.asarray(rollouts.outcome_id)[0]
    mass, earned = np.bincount(outcomes, chance), np.bincount(outcomes, chance * weight)
    mean = earned / mass
    return earned, (np.bincount(outcomes, chance * weight**2) / mass - mean**2) / mean**2


def test_a_learned_backward_policy_leaves_the_target_and_takes_variance_out():
    rollouts = every_walk(TREE)
    uniform, learned = InverseProbability(), InverseProbabilityLearned(decay=0.5)
    shaped, log_mean = uniform.update_state(rollouts.rewards, rollouts, uniform.init(TREE.sizes))
    earned, spread = earned_and_spread(rollouts, shaped, log_mean)
    assert_close(earned, TREE.rewards)
    assert spread.min() > 0.1

    state = learned.init(TREE.sizes)
    fresh, (fresh_mean, _) = learned.update_state(rollouts.rewards, rollouts, state)
    assert_close(fresh, shaped)  # nothing was counted yet: the prior alone is the uniform policy
    assert_close(fresh_mean, log_mean)
    for seed in range(3):
        batch = sampled_walks(seed)
        _, state = jax.jit(learned.update_state)(batch.rewards, batch, state)
    shaped, (log_mean, _) = learned.update_state(rollouts.rewards, rollouts, (jnp.full(1, -jnp.inf), state[1]))
    earned_now, spread_now = earned_and_spread(rollouts, shaped, log_mean)
    np.testing.assert_allclose(earned_now, TREE.rewards, rtol=1e-5)
    assert (spread_now < spread / 30).all()


def test_counts_of_the_learned_backward_policy():
    """Moves 0 and 1 lead to state 2, the environment's q is 1/4 and 3/4; a batch is weighed before it is counted."""
    part = InverseProbabilityLearned(decay=0.5, prior=2.0)
    rollouts = rollouts_of(
        np.log([[[0.5, 9.0], [0.5, 9.0]]]),
        mask=[[[True, False], [True, False]]],
        step_log_backward=np.log([[[0.25, 7.0], [0.75, 7.0]]]),
        next_states=[[[2, 1], [2, 1]]],
        tokens=[[[0, 1], [1, 0]]],
    )
    state = part.init(sizes(1))
    shaped, state = part.update_state(rollouts.rewards, rollouts, state)
    assert_close(shaped, [[0.5, 1.5]])
    assert_close(state[1][2], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert state[1].sum() == 2.0
    shaped, state = part.update_state(rollouts.rewards, rollouts, (state[0], state[1].at[2, 1].add(4.0)))
    # (1 + 2/4) / 8 and (5 + 6/4) / 8 over the policy's half, over the running mean, 1
    assert_close(shaped, [[3 / 8, 13 / 8]])
    assert_close(state[1][2, :2], [1.5, 3.5])


def effective_size(weights):
    return weights.sum(axis=-1) ** 2 / (weights**2).sum(axis=-1)


@pytest.mark.parametrize("part", [InverseMovingFrequency, InverseProbability])
def test_effective_sample_size_of_other_estimates(part):
    rollouts, _ = random_rollouts(1, prompts=4, group=8)
    rollouts = dataclasses.replace(rollouts, rewards=jnp.ones((4, 8)))
    limited, free = (
        part(2.0, effective_share=share).update_state(rollouts.rewards, rollouts, part().init(sizes(4)))[0]
        for share in (0.6, 0.0)
    )
    reached, without = effective_size(np.float64(limited)), effective_size(np.float64(free))
    assert (without < 4.8).any()
    assert_close(reached, np.where(without < 4.8, 4.8, without))


def test_effective_sample_size_of_very_long_answers():
    """Log-probabilities of -900 and -1000: one sample outweighs all others at any exponent but a tiny one."""
    rollouts = rollouts_of([[[-900.0], [-900.0], [-1000.0]]], log_backward=np.zeros((1, 3)))
    part = InverseProbability(effective_share=0.5)
    shaped, _ = part.update_state(rollouts.rewards, rollouts, part.init(Sizes(1)))
    assert_close(effective_size(np.float64(shaped)), [1.5])


def test_answers_without_tokens_have_no_part_in_the_effective_sample_size():
    """Counted as answers of probability 1, they would leave no exponent at which enough of the group counts."""
    log_probs, empty = np.array([-41.0, -42.0, -44.0]), 5
    found = []
    for number in (0, empty):
        behaviour = np.append(log_probs, np.zeros(number))[None, :, None]
        rewards = np.append(np.ones(3), np.zeros(number))[None]
        rollouts = rollouts_of(behaviour, behaviour < 0, rewards=np.float32(rewards), log_backward=0 * rewards)
        part = InverseProbability(effective_share=0.7)
        shaped, _ = part.update_state(rollouts.rewards, rollouts, part.init(Sizes(1)))
        found.append(np.float64(shaped)[:, :3])
    assert_close(effective_size(found[0]), [2.1])
    # The running mean, a scale, counts all answers.
    assert_close(found[1] / found[1].sum(), found[0] / found[0].sum())
