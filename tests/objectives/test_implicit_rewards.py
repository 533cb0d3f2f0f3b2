"""Regressions of an implicit reward, by numbers and identities derived by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.dynamics.expected_update import expected_update
from ipsrl.objectives import make
from ipsrl.structures import PolicyScores, Sizes
from tests.objectives.groups import all_groups, assert_close, bandit_rollouts, rollouts_of

LOGITS = jnp.array([0.4, -0.3, 1.1, 0.0])
REWARDS = jnp.array([1.0, 1.0, 0.0, 0.3])
REFERENCE = jnp.log(jnp.array([0.4, 0.1, 0.3, 0.2]))


def regularised(logits):
    """E[r] - 0.3 KL(pi || pi_ref)."""
    log_probs = jax.nn.log_softmax(logits)
    return jnp.exp(log_probs) @ (REWARDS - 0.3 * (log_probs - REFERENCE))


def loss(text, rollouts, log_probs):
    output = make(text)(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts)
    return output.loss_sum / output.count


def one_group(rewards, **fields):
    return rollouts_of(np.zeros((1, len(rewards), 2)), rewards=np.float32([rewards]), **fields)


# GVPO


def test_half_the_variance_of_what_the_implicit_reward_misses():
    """Rewards 1, 0, 0.5 and log-ratios 2, -1, 0 of answers of two tokens, beta = 1/2: excesses 0, -0.5, -0.5."""
    log_probs = jnp.array([[[1.5, 0.5], [-0.5, -0.5], [0.25, -0.25]]])
    assert_close(loss("gvpo(beta=0.5)", one_group([1, 0, 0.5]), log_probs), (1 / 9 + 2 / 36) / (2 * 2))


def test_towards_the_policy_that_sampled_the_first_step_is_rloo():
    """Not Dr. GRPO: the unbiased variance has its factor G / (G - 1)."""
    for group in (2, 4):
        expected = 0.3 * expected_update(make("rloo"), LOGITS, REWARDS, group)
        np.testing.assert_allclose(expected_update(make("gvpo(beta=0.3)"), LOGITS, REWARDS, group), expected, atol=1e-6)


def test_towards_a_reference_it_is_the_regularised_return():
    for group in (2, 4):
        found = expected_update(make("gvpo(beta=0.3, anchor=reference)"), LOGITS, REWARDS, group, reference=REFERENCE)
        np.testing.assert_allclose(found, 0.3 * jax.grad(regularised)(LOGITS), atol=1e-6)


@pytest.mark.parametrize("anchor", ["behaviour", "reference"])
def test_every_group_is_at_rest_at_the_tilted_anchor(anchor):
    """The policy that sampled may be any: the reference is uniform here, and the sampler is not."""
    sampler = jax.nn.log_softmax(LOGITS)
    rollouts = bandit_rollouts(all_groups(4, 3), REWARDS, sampler)
    tilted = (sampler if anchor == "behaviour" else 0.0) + REWARDS / 0.3
    scores = jax.nn.log_softmax(tilted)[rollouts.tokens]
    value, gradient = jax.value_and_grad(
        lambda log_probs: loss(f"gvpo(beta=0.3, anchor={anchor})", rollouts, log_probs)
    )(scores)
    assert value < 1e-12
    assert np.abs(gradient).max() < 1e-7


# A*-PO


def weighed(text, batches):
    """The advantages of the last of several batches, `[P, G]`."""
    objective = make(text)
    state = objective.init(Sizes(num_prompts=3))
    for batch in batches:
        weights, state, _ = objective.weigh(batch, state)
    return np.asarray(weights.advantages[..., 0])


def of_prompt(rewards, ratios=None, prompt=2):
    """Two tokens each; the reference's probability of an answer over the sampler's."""
    ratios = np.ones(len(rewards)) if ratios is None else np.array(ratios)
    found = one_group(rewards, reference_log_probs=np.repeat(np.log(ratios)[None, :, None] / 2, 2, axis=-1))
    return dataclasses.replace(found, prompt_index=jnp.array([prompt]))


def test_the_optimal_value_is_that_of_the_first_group():
    """V* = log((e + 1 + 1) / 3) of the first group, in which each answer is compared with the other two."""
    first, later = of_prompt([1, 0, 0]), of_prompt([0, 1, 1])
    found = weighed("a2po(beta1=1.0)", [first])
    assert_close(found, [[1.0, -np.log((np.e + 1) / 2), -np.log((np.e + 1) / 2)]])
    value = np.log((np.e + 2) / 3)
    assert_close(weighed("a2po(beta1=1.0)", [first, later, first]), [[1 - value, -value, -value]])
    elsewhere = of_prompt([1, 0, 0], prompt=0)
    other = 1 - np.log((np.e + 1) / 2)
    assert_close(weighed("a2po(beta1=1.0)", [elsewhere, later]), [[-1.0, other, other]])


def test_answers_of_another_policy_are_weighted_to_the_reference():
    """Weights 1, 2, 5: for the first answer V* = log((2 + 5 e) / 7)."""
    found = weighed("a2po(beta1=1.0, value=others)", [of_prompt([1, 0, 1], [1, 2, 5])])
    assert_close(found, [[1 - np.log((2 + 5 * np.e) / 7), -1.0, 1 - np.log((np.e + 2) / 3)]])


@pytest.mark.parametrize("beta1", [0.5, 2.0])
def test_the_optimal_value_is_only_a_baseline_on_policy(beta1):
    objective = make(f"a2po(beta1={beta1}, beta2=0.3)")
    found = expected_update(objective, LOGITS, REWARDS, 4, reference=REFERENCE)
    np.testing.assert_allclose(found, 0.6 * jax.grad(regularised)(LOGITS), atol=1e-6)
