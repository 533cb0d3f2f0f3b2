"""The shared-prompt transformer against a plain one that runs every sequence by itself, without any padding."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, use_abstract_mesh
from scipy.special import log_softmax

from ipsrl.policies.keys import Keys
from ipsrl.policies.rotary import Rotary
from ipsrl.policies.transformer import Transformer
from ipsrl.policies.transformer_config import SlidingWindow
from ipsrl.structures import Prompts, Trajectories
from tests.oracles.plain_models import plain_transformer
from tests.policies.hugging_face.decoder_families import (
    answered,
    left_padded,
    random_parameters,
    shapes_in,
    step_logits,
)
from tests.tiers import slow_after

V, G, T = 11, 3, 5
TEMPERATURE = 0.7
SMALL = Transformer(vocabulary_size=V, hidden_size=16, num_heads=4, num_key_value_heads=2, intermediate_size=24)
VARIANTS = {
    "grouped queries": SMALL,
    "one key-value head, wide heads, untied": dataclasses.replace(
        SMALL, num_key_value_heads=1, head_dim=6, tie_embeddings=False, rotary=Rotary(theta=100.0)
    ),
    "a key-value head for each query head": dataclasses.replace(SMALL, num_key_value_heads=4, num_layers=1),
}


def make_prompts(lengths=(1, 4, 6), extra_padding=0) -> Prompts:
    generator = np.random.default_rng(0)
    return left_padded([generator.integers(0, V, length) for length in lengths], extra_padding)


def make_trajectories(prompts: Prompts) -> Trajectories:
    generator = np.random.default_rng(1)
    num_prompts = prompts.tokens.shape[0]
    mask = np.arange(T) < generator.integers(1, T + 1, (num_prompts, G, 1))
    return answered(prompts, generator.integers(0, V, (num_prompts, G, T)), mask)


SCORE = jax.jit(lambda policy, *arguments: policy.score(*arguments), static_argnums=0)


def scored(policy, parameters, trajectories):
    return SCORE(policy, parameters, trajectories, TEMPERATURE)


def step_through(policy, parameters, trajectories):
    """`[P, G, T, V]` log-probabilities from `start` and T times `step`."""
    logits = step_logits(policy, parameters, trajectories.prompts, trajectories.observations)
    return log_softmax(logits / TEMPERATURE, axis=-1)


@pytest.mark.parametrize("policy", slow_after(2, [*VARIANTS.values()]), ids=VARIANTS)
def test_score_and_step_equal_the_plain_transformer(policy):
    parameters = random_parameters(policy)
    trajectories = make_trajectories(make_prompts())
    scores = jax.tree.map(np.asarray, scored(policy, parameters, trajectories))
    stepped = step_through(policy, parameters, trajectories)
    mask = np.asarray(trajectories.token_mask)
    np.testing.assert_array_equal(scores.log_probs[~mask], 0.0)
    for prompt in range(mask.shape[0]):
        real = np.asarray(trajectories.prompts.tokens)[prompt][np.asarray(trajectories.prompts.mask)[prompt]]
        for member in range(G):
            count = mask[prompt, member].sum()
            answer = np.asarray(trajectories.tokens)[prompt, member, :count]
            probs = plain_transformer(policy, parameters, [*real, *answer[:-1]], TEMPERATURE)[-count:]
            expected = probs[np.arange(count), answer]
            np.testing.assert_allclose(scores.log_probs[prompt, member, :count], expected, atol=2e-5)
            np.testing.assert_allclose(
                scores.entropy[prompt, member, :count], -(np.exp(probs) * probs).sum(-1), atol=2e-5
            )
            np.testing.assert_allclose(stepped[prompt, member, :count], probs, atol=2e-5)


@pytest.mark.parametrize("policy", VARIANTS.values(), ids=VARIANTS)
def test_prompt_log_probs_equal_the_plain_transformer(policy):
    parameters = random_parameters(policy)
    prompts = make_prompts()
    log_probs, mask = map(np.asarray, jax.jit(policy.prompt_log_probs)(parameters, prompts, TEMPERATURE))
    assert log_probs.shape == mask.shape == prompts.tokens.shape
    for row, length in enumerate(np.asarray(prompts.mask).sum(axis=1)):
        real = np.asarray(prompts.tokens)[row, -length:]
        probs = plain_transformer(policy, parameters, real, TEMPERATURE)
        expected = np.zeros(prompts.tokens.shape[1])
        expected[len(expected) - length + 1 :] = probs[np.arange(length - 1), real[1:]]
        np.testing.assert_allclose(log_probs[row], expected, atol=2e-5)
        np.testing.assert_array_equal(mask[row], np.arange(len(expected)) > len(expected) - length)


@pytest.mark.parametrize("policy", VARIANTS.values(), ids=VARIANTS)
def test_features_are_the_mean_of_the_states_after_each_token(policy):
    """Compares features after the unembedding: log-probabilities after each token, up to a constant for all tokens."""
    parameters, trajectories = random_parameters(policy), make_trajectories(make_prompts())
    features = jax.jit(policy.answer_features)(parameters, trajectories)
    assert features.shape == (3, G, policy.hidden_size)
    head = parameters["embed_tokens"]["embedding"] if policy.tie_embeddings else parameters["lm_head"]["kernel"].T
    for number in range(3):
        prompt = np.asarray(trajectories.prompts.tokens)[number][np.asarray(trajectories.prompts.mask)[number]]
        for member in range(G):
            count = int(trajectories.token_mask[number, member].sum())
            answer = np.asarray(trajectories.tokens)[number, member, :count]
            following = plain_transformer(policy, parameters, [*prompt, *answer], TEMPERATURE)[-count:].mean(axis=0)
            expected = TEMPERATURE * (following - following.mean())
            logits = head @ np.asarray(features[number, member])
            np.testing.assert_allclose(logits - logits.mean(), expected, atol=2e-5)


def test_left_padding_changes_neither_scores_nor_gradients():
    parameters = random_parameters(SMALL)

    def loss(parameters, trajectories):
        scores = SMALL.score(parameters, trajectories, TEMPERATURE)
        weights = jnp.sin(jnp.arange(scores.log_probs.size)).reshape(scores.log_probs.shape)
        return jnp.sum(weights * scores.log_probs) + scores.entropy.sum(), scores

    evaluate = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (_, scores), gradient = evaluate(parameters, make_trajectories(make_prompts()))
    (_, padded_scores), padded_gradient = evaluate(parameters, make_trajectories(make_prompts(extra_padding=7)))
    np.testing.assert_allclose(padded_scores.log_probs, scores.log_probs, atol=1e-5)
    np.testing.assert_allclose(padded_scores.entropy, scores.entropy, atol=1e-5)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(gradient))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), padded_gradient, gradient)


def test_padding_tokens_have_no_influence():
    parameters = random_parameters(SMALL)
    trajectories = make_trajectories(make_prompts())
    prompts = trajectories.prompts
    other = dataclasses.replace(prompts, tokens=np.where(prompts.mask, prompts.tokens, V - 1))
    after_stop = np.pad(~np.asarray(trajectories.token_mask)[..., :-1], ((0, 0), (0, 0), (1, 0)))
    changed = dataclasses.replace(
        trajectories, prompts=other, observations=np.where(after_stop, V - 1, trajectories.observations)
    )
    np.testing.assert_array_equal(
        scored(SMALL, parameters, changed).log_probs, scored(SMALL, parameters, trajectories).log_probs
    )


def test_gradient_equals_finite_differences_and_is_zero_at_masked_positions():
    parameters = random_parameters(SMALL)
    trajectories = make_trajectories(make_prompts())
    slopes = jax.jit(jax.grad(lambda w, trajectories: SMALL.score(w, trajectories, TEMPERATURE).log_probs.sum()))
    gradient = slopes(parameters, trajectories)
    generator = np.random.default_rng(5)
    for _ in range(3):
        direction = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape).astype(np.float32), parameters)
        slope = sum(np.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
        moved = (
            jax.tree.map(lambda leaf, d, e=e: leaf + e * d, parameters, direction)
            for e in (np.float32(1e-3), np.float32(-1e-3))
        )
        ahead, behind = (np.mean(scored(SMALL, there, trajectories).log_probs) for there in moved)
        number = trajectories.tokens.size
        np.testing.assert_allclose(slope / number, (ahead - behind) / 2e-3, rtol=0.02, atol=2e-3)

    none = dataclasses.replace(trajectories, token_mask=np.zeros_like(trajectories.token_mask))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(slopes(parameters, none)))


def test_prompts_of_one_token_or_none():
    parameters = random_parameters(SMALL)
    single = make_prompts(lengths=(1, 1))
    trajectories = make_trajectories(single)
    scores = scored(SMALL, parameters, trajectories)
    padded = make_trajectories(make_prompts(lengths=(1, 1), extra_padding=3))  # all that is read ahead is masked
    np.testing.assert_allclose(scores.log_probs, scored(SMALL, parameters, padded).log_probs, atol=1e-5)
    nothing = dataclasses.replace(single, tokens=single.tokens[:, :0], mask=single.mask[:, :0])
    without = dataclasses.replace(trajectories, prompts=nothing)
    np.testing.assert_allclose(scores.log_probs, scored(SMALL, parameters, without).log_probs, atol=1e-5)
    read = jax.jit(SMALL.prompt_log_probs)
    for prompts in (single, nothing):
        log_probs, mask = map(np.asarray, read(parameters, prompts, TEMPERATURE))
        assert log_probs.shape == mask.shape == prompts.tokens.shape
        assert not mask.any()
        assert not log_probs.any()


@pytest.mark.slow
def test_bfloat16_is_close_to_float32_and_keeps_float32_parameters():
    half = dataclasses.replace(SMALL, dtype="bfloat16")
    parameters = half.init(jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(parameters)} == {jnp.dtype("float32")}
    trajectories = make_trajectories(make_prompts())
    rough, exact = (np.asarray(scored(policy, parameters, trajectories).log_probs) for policy in (half, SMALL))
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, exact, atol=0.1)
    assert np.abs(rough - exact).max() > 1e-6  # it is another arithmetic
    for name, dtype in (("cpu", "float32"), ("tpu", "bfloat16")):
        device = AbstractDevice(device_kind=name, num_cores=None, platform=name)
        with use_abstract_mesh(AbstractMesh((1,), ("data",), (AxisType.Auto,), abstract_device=device)):
            cache = jax.eval_shape(lambda: half.start(parameters, trajectories.prompts, G, T))
        assert {leaf.dtype for leaf in jax.tree.leaves((cache.prompt, cache.completion))} == {jnp.dtype(dtype)}
    stepped = step_through(half, parameters, trajectories)
    chosen = np.take_along_axis(stepped, np.asarray(trajectories.tokens)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(np.where(trajectories.token_mask, chosen, 0.0), rough, atol=0.05)


@pytest.mark.parametrize("fields", [{}, {"tie_embeddings": False, "num_heads": 2}, {"head_dim": 6, "num_layers": 3}])
def test_matrix_elements_are_those_of_the_matrices(fields):
    policy = Transformer(11, hidden_size=16, **fields)
    matrices = [leaf for leaf in jax.tree.leaves(jax.eval_shape(policy.init, jax.random.key(0))) if leaf.ndim == 2]
    assert policy.matrix_elements == sum(leaf.size for leaf in matrices)


def test_a_policy_that_does_not_fit_is_refused_from_arithmetic():
    Transformer(50).require_memory()
    with pytest.raises(
        ValueError, match=r"the weights of the policy take 4\.84 PB or more, but there are .*: choose a"
    ):
        Transformer(50, hidden_size=2**20, num_layers=100).require_memory()


def test_keys_are_those_of_flax():
    ours, theirs = Keys(jax.random.key(3)), nnx.Rngs(jax.random.key(3))
    for _ in range(3):
        assert ours.next() == theirs.params()


def test_init_depends_on_the_key_only_and_can_be_compiled():
    compiled = jax.jit(SMALL.init)
    first, second, other = (jax.device_get(compiled(jax.random.key(seed))) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), first, SMALL.init(jax.random.key(0)))
    assert (first["embed_tokens"]["embedding"] != other["embed_tokens"]["embedding"]).all()
    assert (first["layers"][0]["mlp"]["up_proj"]["kernel"] != first["layers"][0]["mlp"]["gate_proj"]["kernel"]).all()


def test_keys_of_the_prompt_are_never_repeated_for_the_group():
    # Sizes that occur nowhere else: 13 columns read ahead, groups of 3, heads 10 wide.
    policy = dataclasses.replace(SMALL, head_dim=10)
    trajectories = make_trajectories(make_prompts(lengths=(2, 14)))
    loss = lambda w: policy.score(w, trajectories, 1.0).log_probs.sum()  # noqa: E731
    shapes = shapes_in(jax.make_jaxpr(jax.grad(loss))(random_parameters(policy)).jaxpr)
    assert (2, 2, 13, 10) in shapes  # the keys of the prompts
    assert (2, 2, G, 2, T, 13) in shapes  # what the groups make of them
    assert not [shape for shape in shapes if G in shape and 13 in shape and 10 in shape]
    assert not [shape for shape in shapes if G in shape and (13 in shape or 14 in shape) and len(shape) == 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads 3 must divide num_heads 4"),
        ({"head_dim": 5}, "5 wide"),
        ({"biases": ("q_proj", "lm_head")}, r"biases has \['lm_head'\], but only"),
        ({"sliding": SlidingWindow(3, (2,))}, "Layer 2 cannot have a sliding window: the last of 2 layers is number 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **arguments)


def test_observations_of_another_number_of_prompts():
    trajectories = make_trajectories(make_prompts())
    wrong = dataclasses.replace(trajectories, observations=trajectories.observations[:2])
    with pytest.raises(ValueError, match=r"observations \(2, 3, 5\) must be \[P, G, T\] for the 3 prompts"):
        SMALL.score({}, wrong, 1.0)
