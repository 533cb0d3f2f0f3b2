"""Promises of every family: steps, scores and reading agree; blocks and rematerialisation change only rounding."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy.special import log_softmax

from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.rotary import Rotary
from ipsrl.policies.transformer import Transformer
from ipsrl.policies.transformer_config import SlidingWindow
from tests.policies.hugging_face.decoder_families import (
    FAMILIES,
    V,
    answered,
    left_padded,
    random_parameters,
    shapes_in,
    step_logits,
    write_config,
)

G, T = 3, 9
# On both sides of the window of 5 tokens, and one that is read without anything ahead.
LENGTHS = (12, 1, 4)


# Biases and norms of heads, a window, caps and Gemma's block; the others differ in their wavelengths or combine these.
TELLING = {"llama with biases and narrow heads", "qwen3", "gemma2"}
EVERY = [pytest.param(name, marks=[] if name in TELLING else pytest.mark.slow) for name in FAMILIES]


@pytest.fixture(scope="module", params=EVERY)
def policy(request, tmp_path_factory):
    return read_policy(write_config(tmp_path_factory.mktemp("folder"), request.param))


def make_trajectories(padding=0, steps=T):
    generator = np.random.default_rng(0)
    prompts = left_padded([generator.integers(0, V, length) for length in LENGTHS], padding)
    tokens = generator.integers(0, V, (len(LENGTHS), G, steps))
    return answered(prompts, tokens, np.ones(tokens.shape, bool))


SCORE = jax.jit(lambda policy, *arguments: policy.score(*arguments), static_argnums=0)


def scored(policy, parameters, trajectories):
    return np.asarray(SCORE(policy, parameters, trajectories, 0.7).log_probs)


def test_steps_scores_and_reading_agree(policy):
    parameters = random_parameters(policy)
    trajectories = make_trajectories()
    scores = scored(policy, parameters, trajectories)
    np.testing.assert_allclose(scored(policy, parameters, make_trajectories(padding=7)), scores, atol=1e-4)

    logits = step_logits(policy, parameters, trajectories.prompts, trajectories.observations)
    log_probs = log_softmax(logits / 0.7, axis=-1)
    chosen = np.take_along_axis(log_probs, np.asarray(trajectories.tokens)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, scores, atol=1e-4)

    # Prompt and answer as one text, which is read without any sharing.
    texts = [
        np.concatenate([np.asarray(trajectories.prompts.tokens)[row, -length:], answer])
        for row, length in enumerate(LENGTHS)
        for answer in np.asarray(trajectories.tokens)[row]
    ]
    read, _ = jax.jit(policy.prompt_log_probs)(parameters, left_padded(texts), 0.7)
    np.testing.assert_allclose(read[:, -T:].reshape(scores.shape), scores, atol=1e-4)


def value_and_gradient(policy, parameters, trajectories):
    def loss(parameters):
        read, _ = policy.prompt_log_probs(parameters, trajectories.prompts, 0.7)
        return policy.score(parameters, trajectories, 0.7).log_probs.sum() + read.sum()

    with jax.set_mesh(own_device_mesh()):
        return jax.jit(jax.value_and_grad(loss))(parameters)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama with biases and narrow heads", "gemma3"])
def test_blocks_and_rematerialisation_change_only_rounding(family, tmp_path):
    policy = read_policy(write_config(tmp_path, family))
    parameters = random_parameters(policy)
    trajectories = make_trajectories()
    value, gradient = value_and_gradient(policy, parameters, trajectories)
    scale = max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient))
    for change in ({"query_block": 4}, {"remat": "layer"}, {"remat": "dots", "query_block": 4}):
        changed = dataclasses.replace(policy, **change)
        other_value, other_gradient = value_and_gradient(changed, parameters, trajectories)
        np.testing.assert_allclose(other_value, value, rtol=1e-5)
        for leaf, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(other_gradient), strict=True):
            np.testing.assert_allclose(other, leaf, atol=1e-5 * scale)
            assert np.any(leaf)


SLIDING = Transformer(V, hidden_size=16, sliding=SlidingWindow(3, layers=(0, 1), rotary=Rotary(theta=50.0)))


def test_a_window_hides_what_is_far_away():
    # Through two layers a token sees (3 - 1) * 2 tokens before it.
    parameters = random_parameters(SLIDING)
    trajectories = make_trajectories()
    scores = scored(SLIDING, parameters, trajectories)
    for distance, seen in ((4, True), (5, False)):
        # The first token is predicted after the last of the prompt; `distance` tokens before that one is changed.
        prompts = trajectories.prompts
        tokens = np.array(prompts.tokens)
        tokens[:, -1 - distance] = (tokens[:, -1 - distance] + 1) % V
        changed = dataclasses.replace(trajectories, prompts=dataclasses.replace(prompts, tokens=tokens))
        first = scored(SLIDING, parameters, changed)[0, :, 0]
        assert (np.abs(first - scores[0, :, 0]).max() > 1e-5) == seen
    # The same inside the answer: five tokens later nothing is left of a change.
    observations = np.array(trajectories.observations)
    observations[:, :, 2] = (observations[:, :, 2] + 1) % V
    changed = scored(SLIDING, parameters, dataclasses.replace(trajectories, observations=observations))
    assert np.abs(changed[:, :, 6] - scores[:, :, 6]).max() > 1e-5
    np.testing.assert_allclose(changed[:, :, 7:], scores[:, :, 7:], atol=1e-6)


def test_only_a_block_of_queries_has_weights_at_a_time():
    # Sizes that occur nowhere else: 9 answer tokens in 3 blocks of 3, prompts of 12 tokens of which 11 are read ahead.
    policy = Transformer(V, hidden_size=20, num_heads=2, num_key_value_heads=1, head_dim=10, query_block=4)
    trajectories = make_trajectories()
    loss = lambda parameters: policy.score(parameters, trajectories, 1.0).log_probs.sum()  # noqa: E731
    shapes = shapes_in(jax.make_jaxpr(jax.grad(loss))(random_parameters(policy)).jaxpr)
    prompts, kv_heads, repeats = len(LENGTHS), 1, 2
    assert (prompts, kv_heads, G, repeats, 3, 11) in shapes
    assert (prompts, kv_heads, G, repeats, T, 11) not in shapes
    assert (3, prompts, kv_heads, G, repeats, 3, 11) not in shapes


@pytest.mark.slow
def test_rematerialisation_stores_less():
    # What the backward pass finds stored, not the compiler's account: on CPU XLA merges what is computed twice, but for
    # loops.
    trajectories = make_trajectories(steps=100)
    stored = {}
    for remat in ("none", "dots", "layer"):
        policy = Transformer(V, num_layers=4, remat=remat)
        loss = lambda parameters, policy=policy: policy.score(parameters, trajectories, 1.0).log_probs.sum()  # noqa: E731
        backward = jax.eval_shape(
            lambda w, loss=loss: jax.vjp(loss, w)[1], jax.eval_shape(policy.init, jax.random.key(0))
        )
        stored[remat] = sum(leaf.size for leaf in jax.tree.leaves(backward))
    assert stored["layer"] < 0.5 * stored["dots"]
    assert stored["dots"] < 0.5 * stored["none"]


@pytest.mark.slow
def test_the_compiler_stores_less_if_layers_are_a_loop():
    trajectories = make_trajectories(steps=100)
    stored = {}
    for remat in ("none", "layer"):
        policy = Transformer(V, num_layers=6, remat=remat)
        gradient = jax.grad(lambda w, policy=policy: policy.score(w, trajectories, 1.0).log_probs.sum())
        with jax.set_mesh(own_device_mesh()):
            compiled = jax.jit(gradient).lower(jax.eval_shape(policy.init, jax.random.key(0))).compile()
        stored[remat] = compiled.memory_analysis().temp_size_in_bytes
    assert stored["layer"] < 0.4 * stored["none"]
