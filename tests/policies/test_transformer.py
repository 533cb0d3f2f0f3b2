"""Promises of the transformer alone: masks, gradients, kinds of numbers, keys that a group shares, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, use_abstract_mesh
from scipy.special import log_softmax

from ipsrl.policies.keys import Keys
from ipsrl.policies.transformer import Transformer
from tests.policies.hugging_face.decoder_families import shapes_in, step_logits
from tests.policies.small_models import (
    SCORE,
    TEMPERATURE,
    TRANSFORMER,
    G,
    T,
    make_prompts,
    make_trajectories,
    parameters_of,
)


def scored(policy, parameters, trajectories):
    return SCORE(policy, parameters, trajectories, TEMPERATURE)


def test_gradient_equals_finite_differences_and_is_zero_at_masked_positions():
    parameters = parameters_of(TRANSFORMER)
    trajectories = make_trajectories(make_prompts())
    slopes = jax.jit(jax.grad(lambda w, trajectories: TRANSFORMER.score(w, trajectories, TEMPERATURE).log_probs.sum()))
    gradient = slopes(parameters, trajectories)
    generator = np.random.default_rng(5)
    for _ in range(3):
        direction = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape).astype(np.float32), parameters)
        slope = sum(np.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
        moved = (
            jax.tree.map(lambda leaf, d, e=e: leaf + e * d, parameters, direction)
            for e in (np.float32(1e-3), np.float32(-1e-3))
        )
        ahead, behind = (np.mean(scored(TRANSFORMER, there, trajectories).log_probs) for there in moved)
        number = trajectories.tokens.size
        np.testing.assert_allclose(slope / number, (ahead - behind) / 2e-3, rtol=0.02, atol=2e-3)

    none = dataclasses.replace(trajectories, token_mask=np.zeros_like(trajectories.token_mask))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(slopes(parameters, none)))


@pytest.mark.slow
def test_bfloat16_is_close_to_float32_and_keeps_float32_parameters():
    half = dataclasses.replace(TRANSFORMER, dtype="bfloat16")
    parameters = half.init(jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(parameters)} == {jnp.dtype("float32")}
    trajectories = make_trajectories(make_prompts())
    rough, exact = (np.asarray(scored(policy, parameters, trajectories).log_probs) for policy in (half, TRANSFORMER))
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, exact, atol=0.1)
    assert np.abs(rough - exact).max() > 1e-6  # it is another arithmetic
    for name, dtype in (("cpu", "float32"), ("tpu", "bfloat16")):
        device = AbstractDevice(device_kind=name, num_cores=None, platform=name)
        with use_abstract_mesh(AbstractMesh((1,), ("data",), (AxisType.Auto,), abstract_device=device)):
            cache = jax.eval_shape(lambda: half.start(parameters, trajectories.prompts, G, T))
        assert {leaf.dtype for leaf in jax.tree.leaves((cache.prompt, cache.completion))} == {jnp.dtype(dtype)}
    logits = step_logits(half, parameters, trajectories.prompts, trajectories.observations)
    stepped = log_softmax(logits / TEMPERATURE, axis=-1)
    chosen = np.take_along_axis(stepped, np.asarray(trajectories.tokens)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(np.where(trajectories.token_mask, chosen, 0.0), rough, atol=0.05)


@pytest.mark.parametrize("fields", [{}, {"tie_embeddings": False, "num_heads": 2}, {"head_dim": 6, "num_layers": 3}])
def test_matrix_elements_are_those_of_the_matrices(fields):
    policy = Transformer(11, hidden_size=16, **fields)
    matrices = [leaf for leaf in jax.tree.leaves(jax.eval_shape(policy.init, jax.random.key(0))) if leaf.ndim == 2]
    assert policy.matrix_elements == sum(leaf.size for leaf in matrices)


def test_keys_are_those_of_flax():
    ours, theirs = Keys(jax.random.key(3)), nnx.Rngs(jax.random.key(3))
    for _ in range(3):
        assert ours.next() == theirs.params()


def test_init_depends_on_the_key_only_and_can_be_compiled():
    compiled = jax.jit(TRANSFORMER.init)
    first, second, other = (jax.device_get(compiled(jax.random.key(seed))) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), first, TRANSFORMER.init(jax.random.key(0)))
    assert (first["embed_tokens"]["embedding"] != other["embed_tokens"]["embedding"]).all()
    assert (first["layers"][0]["mlp"]["up_proj"]["kernel"] != first["layers"][0]["mlp"]["gate_proj"]["kernel"]).all()


def test_keys_of_the_prompt_are_never_repeated_for_the_group():
    # Sizes that occur nowhere else: 13 columns read ahead, groups of 3, heads 10 wide.
    policy = dataclasses.replace(TRANSFORMER, head_dim=10)
    trajectories = make_trajectories(make_prompts(lengths=(2, 14)))
    loss = lambda w: policy.score(w, trajectories, 1.0).log_probs.sum()  # noqa: E731
    shapes = shapes_in(jax.make_jaxpr(jax.grad(loss))(parameters_of(policy)).jaxpr)
    assert (2, 2, 13, 10) in shapes  # the keys of the prompts
    assert (2, 2, G, 2, T, 13) in shapes  # what the groups make of them
    assert not [shape for shape in shapes if G in shape and 13 in shape and 10 in shape]
    assert not [shape for shape in shapes if G in shape and (13 in shape or 14 in shape) and len(shape) == 3]


def test_observations_of_another_number_of_prompts():
    trajectories = make_trajectories(make_prompts())
    wrong = dataclasses.replace(trajectories, observations=trajectories.observations[:2])
    with pytest.raises(ValueError, match=r"observations \(2, 3, 7\) must be \[P, G, T\] for the 3 prompts"):
        TRANSFORMER.score({}, wrong, 1.0)
