"""Promises of every sequence model, against a plain one that runs every text by itself, without any padding."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from ipsrl.policies.rotary import Rotary
from ipsrl.policies.transformer import Transformer
from tests.oracles.plain_models import plain_state_space, plain_transformer
from tests.policies.hugging_face.decoder_families import step_logits
from tests.policies.small_models import (
    SCORE,
    STATE_SPACE,
    TEMPERATURE,
    TRANSFORMER,
    G,
    T,
    make_prompts,
    make_trajectories,
    parameters_of,
)
from tests.tiers import slow_after

WIDE = dataclasses.replace(
    TRANSFORMER, num_key_value_heads=1, head_dim=6, tie_embeddings=False, rotary=Rotary(theta=100.0)
)
UNGROUPED = dataclasses.replace(TRANSFORMER, num_key_value_heads=4, num_layers=1)
MODELS = {"grouped": TRANSFORMER, "wide heads, untied": WIDE, "state space": STATE_SPACE, "not grouped": UNGROUPED}
CHUNKS = {f"state space, chunk {chunk}": dataclasses.replace(STATE_SPACE, chunk=chunk) for chunk in (1, 64)}
each = pytest.mark.parametrize("policy", MODELS.values(), ids=MODELS)
ONE_OF_EACH = [TRANSFORMER, pytest.param(STATE_SPACE, marks=pytest.mark.slow)]


def plain(policy, tokens):
    """`[N, V]` log-probabilities after each of the N tokens of one text."""
    model = plain_transformer if isinstance(policy, Transformer) else plain_state_space
    return model(policy, parameters_of(policy), tokens, TEMPERATURE)


def texts_of(trajectories):
    """The place, the prompt without padding, the answer with padding, and its number of tokens, of each answer."""
    prompts = trajectories.prompts
    for place in np.ndindex(trajectories.tokens.shape[:2]):
        prompt = np.asarray(prompts.tokens[place[0]])[np.asarray(prompts.mask[place[0]])]
        yield place, prompt, np.asarray(trajectories.tokens[place]), int(trajectories.token_mask[place].sum())


@pytest.mark.parametrize("policy", slow_after(5, [*(CHUNKS | MODELS).values()]), ids=CHUNKS | MODELS)
def test_score_and_step_equal_the_plain_model(policy):
    parameters, trajectories = parameters_of(policy), make_trajectories(make_prompts())
    scores = jax.tree.map(np.asarray, SCORE(policy, parameters, trajectories, TEMPERATURE))
    logits = step_logits(policy, parameters, trajectories.prompts, trajectories.observations)
    stepped = log_softmax(logits / TEMPERATURE, axis=-1)
    np.testing.assert_array_equal(scores.log_probs[~np.asarray(trajectories.token_mask)], 0.0)
    for place, prompt, answer, count in texts_of(trajectories):
        expected = plain(policy, [*prompt, *answer[:-1]])[-T:]
        chosen, entropy = expected[np.arange(T), answer], -(np.exp(expected) * expected).sum(-1)
        np.testing.assert_allclose(scores.log_probs[place][:count], chosen[:count], rtol=0, atol=1e-5)
        np.testing.assert_allclose(scores.entropy[place][:count], entropy[:count], rtol=0, atol=1e-5)
        # The rounding of float32, which the plain models have too, grows with the largest number.
        np.testing.assert_allclose(stepped[place], expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@each
def test_prompt_log_probs_equal_the_plain_model(policy):
    prompts = make_prompts()
    read = jax.jit(policy.prompt_log_probs)(parameters_of(policy), prompts, TEMPERATURE)
    log_probs, mask = map(np.asarray, read)
    assert log_probs.shape == mask.shape == prompts.tokens.shape
    for row, length in enumerate(np.asarray(prompts.mask).sum(axis=1)):
        real = np.asarray(prompts.tokens)[row, -length:]
        expected = np.zeros(prompts.tokens.shape[1])
        expected[len(expected) - length + 1 :] = plain(policy, real)[np.arange(length - 1), real[1:]]
        np.testing.assert_allclose(log_probs[row], expected, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(mask[row], np.arange(len(expected)) > len(expected) - length)


@each
def test_features_are_the_mean_of_the_states_after_each_token(policy):
    """Compares features after the unembedding: log-probabilities after each token, up to a constant for all tokens."""
    parameters, trajectories = parameters_of(policy), make_trajectories(make_prompts())
    features = jax.jit(policy.answer_features)(parameters, trajectories)
    assert features.shape == (3, G, policy.hidden_size)
    if policy is WIDE:
        head = parameters["lm_head"]["kernel"].T
    else:
        head = parameters["embedding"] if policy is STATE_SPACE else parameters["embed_tokens"]["embedding"]
    for place, prompt, answer, count in texts_of(trajectories):
        following = plain(policy, [*prompt, *answer[:count]])[-count:].mean(axis=0)
        expected = TEMPERATURE * (following - following.mean())
        logits = head @ np.asarray(features[place])
        np.testing.assert_allclose(logits - logits.mean(), expected, atol=2e-5)


@pytest.mark.parametrize("policy", ONE_OF_EACH)
def test_left_padding_changes_neither_scores_nor_gradients(policy):
    def loss(parameters, trajectories):
        scores = policy.score(parameters, trajectories, TEMPERATURE)
        weights = jnp.sin(jnp.arange(scores.log_probs.size)).reshape(scores.log_probs.shape)
        return jnp.sum(weights * scores.log_probs) + scores.entropy.sum(), scores

    evaluate, parameters = jax.jit(jax.value_and_grad(loss, has_aux=True)), parameters_of(policy)
    (_, scores), gradient = evaluate(parameters, make_trajectories(make_prompts()))
    (_, padded_scores), padded_gradient = evaluate(parameters, make_trajectories(make_prompts(extra_padding=7)))
    np.testing.assert_allclose(padded_scores.log_probs, scores.log_probs, rtol=0, atol=1e-5)
    np.testing.assert_allclose(padded_scores.entropy, scores.entropy, rtol=0, atol=1e-5)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(gradient))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), padded_gradient, gradient)


@pytest.mark.parametrize("policy", ONE_OF_EACH)
def test_prompts_of_one_token_or_none(policy):
    """Without a prompt the first observation is the first token as well."""
    parameters, single = parameters_of(policy), make_prompts(lengths=(1, 1))
    trajectories = make_trajectories(single)
    nothing = dataclasses.replace(single, tokens=single.tokens[:, :0], mask=single.mask[:, :0])
    padded = make_prompts(lengths=(1, 1), extra_padding=3)  # all that is read ahead is masked
    scores = SCORE(policy, parameters, trajectories, TEMPERATURE).log_probs
    for prompts in (padded, nothing):
        others = SCORE(policy, parameters, dataclasses.replace(trajectories, prompts=prompts), TEMPERATURE).log_probs
        # Other widths may be summed in another order: equal to the last bit on some processors, not on all.
        np.testing.assert_allclose(others, scores, rtol=0, atol=2e-6 * np.abs(scores).max())
    read = jax.jit(policy.prompt_log_probs)
    for prompts in (single, nothing):
        log_probs, mask = map(np.asarray, read(parameters, prompts, TEMPERATURE))
        assert log_probs.shape == mask.shape == prompts.tokens.shape
        assert not mask.any()
        assert not log_probs.any()
