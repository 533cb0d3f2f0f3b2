"""The loss and its gradient off-policy, on answers of unequal lengths, against the values that rows declare."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make, names
from ipsrl.structures import PolicyScores, Sizes, Weights
from tests.objectives.declared import ROWS
from tests.objectives.groups import greedy_of, parts_of, rollouts_of
from tests.objectives.halves import losing, weighing
from tests.oracles.token_values import (
    BACKWARD,
    BEHAVIOUR,
    MEANS_MOVED,
    REFERENCE,
    balanced,
    binary_kl,
    clipped,
    clipped_sequence,
    constant_length,
    control_and_response,
    divergence_mask,
    gradient_preserving,
    pairs,
    sequence_mean,
    tilt,
    token_mean,
    truncated,
)

PROMPTS, GROUP, LENGTH = 4, 6, 6
SIZES = Sizes(PROMPTS, num_outcomes=GROUP, num_states=1, vocabulary_size=2)


def case(seed=0):
    """Log-ratios, advantages and a mask; each prompt has ratios of another size.

    The last two have one ratio for all tokens of an answer, so that the ratios of answers reach narrow limits too, on
    all sides of them.
    """
    rng = np.random.default_rng(seed)
    lengths = np.array([rng.permutation(GROUP) % LENGTH + 1 for _ in range(PROMPTS)])
    mask = np.arange(LENGTH) < lengths[..., None]
    log_ratio = rng.normal(size=mask.shape) * np.array([0.3, 1.5, 0, 0])[:, None, None]
    log_ratio[2] += np.array([-6.5, -3.5, -2.0, 2.0, 3.5, 6.5])[:, None] * 1e-4
    log_ratio[3] += (np.array([-0.35, -0.23, -0.1, 0.1, 0.23, 0.35]) / lengths[3])[:, None]
    advantages = rng.choice([-1, 1], mask.shape) * rng.uniform(0.2, 2.0, mask.shape)
    return np.where(mask, log_ratio, 0.0), advantages, mask


def rollouts_with(mask, rewards=None):
    def where_masked(probability):
        return jnp.where(mask, jnp.log(probability), 0.0)

    zeros = jnp.zeros(mask.shape, jnp.int32)
    rewards = np.tile(np.arange(GROUP), (PROMPTS, 1)) if rewards is None else rewards
    return rollouts_of(
        where_masked(BEHAVIOUR),
        mask,
        behaviour_entropy=np.ones(mask.shape),
        rewards=jnp.float32(rewards),
        reward_parts=parts_of(rewards),
        greedy_rewards=greedy_of(rewards),
        outcome_id=np.tile(np.arange(GROUP), (PROMPTS, 1)),
        reference_log_probs=where_masked(REFERENCE),
        proximal_log_probs=where_masked(BEHAVIOUR),
        proximal_mean_log_probs=where_masked(REFERENCE),
        step_log_backward=where_masked(BACKWARD),
        log_backward=where_masked(BACKWARD).sum(axis=-1),
        next_states=zeros,
        planning_mask=mask,
        off_policy=np.tile(np.arange(GROUP) == 0, (PROMPTS, 1)),
        top_tokens=jnp.stack([zeros, zeros + 1], axis=-1),
        top_log_probs=jnp.full((*mask.shape, 2), jnp.log(0.5)),
        prompt_log_probs=jnp.full((PROMPTS, 1), jnp.log(0.5)),
        prompt_mask=np.ones((PROMPTS, 1), bool),
        question_mask=np.ones((PROMPTS, 1), bool),
        answer_features=np.random.default_rng(4).normal(size=(PROMPTS, GROUP, 3)),
        keys=jax.random.split(jax.random.key(0), PROMPTS),
    )


def declared(tokens, log_ratio, advantages, mask, step=1e-6):
    """The loss, None where only its gradient is declared, and the gradient by the log-probabilities."""
    found = tokens(log_ratio, advantages, mask)
    if isinstance(found, tuple):
        values, slopes = found
        return None if values is None else -values.sum(), -slopes
    gradient = np.zeros(mask.shape)
    for place in np.argwhere(mask):
        moved = np.zeros(mask.shape)
        moved[tuple(place)] = step
        ends = [tokens(log_ratio + side * moved, advantages, mask).sum() for side in (1, -1)]
        gradient[tuple(place)] = -(ends[0] - ends[1]) / (2 * step)
    return -found.sum(), gradient


@functools.partial(jax.jit, static_argnames="objective")
def loss_and_gradient(objective, log_probs, advantages, rollouts):
    """The mean loss with these advantages, and its gradient by the log-probabilities."""

    def loss(log_probs):
        means = rollouts.proximal_mean_log_probs + MEANS_MOVED * jnp.arange(LENGTH)
        scores = PolicyScores(log_probs, rollouts.behaviour_entropy, rollouts.top_log_probs, mean_log_probs=means)
        parameters = objective.init_parameters(SIZES)
        output = objective.loss(scores, rollouts, Weights(advantages, ()), parameters)
        return output.loss_sum / output.count

    return jax.value_and_grad(loss)(log_probs)


@functools.partial(jax.jit, static_argnames="objective")
def advantages_of_each(objective, batches):
    def weigh(rollouts):
        return objective.weigh(rollouts, objective.init(SIZES))[0].advantages

    return jax.vmap(weigh)(batches)


@functools.cache
def batch_of_all():
    """Rollouts rewarded in the order of the answers; others, and the same but shorter; rewards and mask of these."""
    rng = np.random.default_rng(3)
    rewards = rng.uniform(0.1, 1.0, (PROMPTS, GROUP))
    mask = case()[2]
    cut = np.arange(LENGTH) < np.minimum(mask.sum(axis=-1), rng.integers(1, LENGTH + 1, mask.shape[:2]))[..., None]
    whole = rollouts_with(mask, rewards)
    # Only what says how long answers are differs.
    shorter = dataclasses.replace(whole, token_mask=jnp.asarray(cut))
    return rollouts_with(mask), jax.tree.map(lambda *leaves: jnp.stack(leaves), whole, shorter), rewards, cut


TOKENS = {text: row.tokens for text, row in ROWS.items() if row.tokens is not None} | {
    # Arguments reach their parts: none has its default.
    "grpo(clip=(0.1, 0.3))": sequence_mean(clipped(0.1, 0.3)),
    "grpo(dual_clip=1.5)": sequence_mean(clipped(0.2, 0.2, dual_clip=1.5)),
    "lite_ppo(clip=(0.1, 0.3))": token_mean(clipped(0.1, 0.3)),
    "clip_cov(clip=(0.1, 0.3))": token_mean(clipped(0.1, 0.3)),
    "reinforce_plus_plus(clip=(0.1, 0.3))": token_mean(clipped(0.1, 0.3)),
    "dr_grpo(clip=(0.1, 0.3))": constant_length(clipped(0.1, 0.3)),
    "reinforce_plus_plus_baseline(clip=(0.1, 0.3))": token_mean(clipped(0.1, 0.3)),
    "gspo(clip=(0.1, 0.05))": sequence_mean(clipped_sequence(0.1, 0.05, mean=True)),
    "rloo(clip=(0.3, 0.1))": sequence_mean(clipped_sequence(0.3, 0.1, mean=False)),
    "rloo(ratio=token, clip=(0.3, 0.1))": sequence_mean(clipped(0.3, 0.1)),
    "bapo(dual_clip=1.5)": token_mean(balanced(0.4, 0.6, 0.9, 0.02, 1.2, 3.0, 0.05, dual_clip=1.5)),
    "dppo(ratio_cap=1.4)": constant_length(divergence_mask(0.15, cap=1.4)),
    "dppo(divergence=binary_kl, ratio_cap=1.4)": constant_length(divergence_mask(0.05, binary_kl, cap=1.4)),
    "degrpo(alpha=0.3)": control_and_response(0.3, clipped(0.2, 0.2)),
    "rpo(form=cumulative, beta=0.4, eta=0.3)": sequence_mean(pairs(0.4, imitation=0.12, of_mean=False)),
    "gppo(dual_clip=1.5)": token_mean(gradient_preserving(0.2, 0.28, dual_clip=1.5)),
    "ce_gppo(clip=(0.1, 0.3))": token_mean(gradient_preserving(0.1, 0.3, beta_low=0.75)),
    "ce_gppo(negative_scale=0.5, positive_scale=0.8)": token_mean(gradient_preserving(0.2, 0.2, 0.5, 0.8)),
    "cispo(cap=1.3, floor=0.7)": token_mean(truncated(1.3, 0.7)),
    "flowrl(clip=(0.5, 0.4))": sequence_mean(tilt(15.0, 0.5, 0.4)),
    "flowrl(released_weight=True)": sequence_mean(tilt(15.0, 1.0, np.inf)),
}


@pytest.mark.parametrize("text", TOKENS)
def test_the_loss_is_that_of_the_declared_tokens(text):
    """Without penalties."""
    log_ratio, advantages, mask = case()
    loss, gradient = declared(TOKENS[text], log_ratio, advantages, mask)
    rollouts, *_ = batch_of_all()
    objective = dataclasses.replace(losing(make(text)), penalties=())
    log_probs = np.float32(log_ratio) + np.asarray(rollouts.behaviour_log_probs)
    actual, actual_gradient = loss_and_gradient(objective, log_probs, np.float32(advantages), rollouts)
    np.testing.assert_allclose(actual_gradient, gradient, rtol=2e-4, atol=1e-6 * np.abs(gradient).max() + 1e-7)
    if loss is not None:
        np.testing.assert_allclose(actual, loss, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("text", names())
def test_advantages_look_at_lengths_as_declared(text):
    """The same answers but for their lengths get the same advantages, or those that the row declares."""
    _, others, rewards, cut = batch_of_all()
    mask, (before, after) = case()[2], np.asarray(advantages_of_each(weighing(make(text)), others))
    lengths = ROWS[text].lengths
    if lengths is None:
        message = f"the advantages of {text!r} depend on the lengths of answers: its Row has to declare `lengths`"
        np.testing.assert_allclose(after[cut], before[cut], rtol=1e-5, atol=1e-6, err_msg=message)
    elif not isinstance(lengths, str):
        expected = lengths(rewards, mask)
        expected = np.broadcast_to(expected if expected.ndim == 3 else expected[..., None], mask.shape)
        np.testing.assert_allclose(before[mask], expected[mask], rtol=1e-4, atol=1e-5)
