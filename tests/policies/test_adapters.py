"""Low-rank adapters, and the frozen matrices below them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.distributed.placement import check_placement_rules
from ipsrl.policies.adapters import FEW_BITS, LoRA, frozen_as, merged, split
from ipsrl.policies.policy import union
from ipsrl.policies.transformer import Transformer
from ipsrl.structures import Prompts
from tests.policies.small_models import STATE_SPACE
from tests.tiers import slow_after

BASE = Transformer(19, hidden_size=128, num_layers=2, biases=("q_proj",), tie_embeddings=False)
TARGETS = ("q_proj", "o_proj", "down_proj")


def adapted(frozen: str = "float32") -> Transformer:
    return dataclasses.replace(BASE, lora=LoRA(rank=3, alpha=6.0, targets=TARGETS, frozen=frozen))


FRESH = jax.jit(lambda policy, key: policy.init(key), static_argnums=0)


def stored(dtype, frozen):
    """All frozen parameters in another type."""
    return jax.tree.map_with_path(
        lambda path, leaf: frozen_as(dtype, jax.tree_util.keystr(path, simple=True, separator="/"), leaf), frozen
    )


def parameters_of(policy: Transformer, trained: bool):
    """Adapters, as at the start or as if trained, and frozen parameters in their type."""
    adapters, frozen = split(FRESH(policy, jax.random.key(0)))
    if trained:
        rng = np.random.default_rng(1)
        adapters = jax.tree.map(lambda leaf: rng.normal(scale=0.1, size=leaf.shape).astype(np.float32), adapters)
    return adapters, stored(policy.lora.frozen, frozen)


@functools.partial(jax.jit, static_argnums=0)
def log_probs(policy: Transformer, parameters):
    tokens = np.random.default_rng(2).integers(0, policy.vocabulary_size, (2, 7))
    prompts = Prompts(jnp.arange(2), jnp.asarray(tokens), jnp.ones(tokens.shape, bool))
    return policy.prompt_log_probs(parameters, prompts, 1.0)[0]


def test_split_and_union_are_inverse():
    parameters = FRESH(adapted(), jax.random.key(0))
    adapters, frozen = split(parameters)
    names = {jax.tree_util.keystr(path[-2:], simple=True) for path, _ in jax.tree.leaves_with_path(adapters)}
    assert names == {f"{target}{leaf}" for target in TARGETS for leaf in ("lora_a", "lora_b")}
    jax.tree.map(np.testing.assert_array_equal, union(adapters, frozen), parameters)
    assert union(parameters, None) is parameters


@pytest.mark.parametrize("policy", [adapted(), STATE_SPACE], ids=lambda policy: type(policy).__name__)
def test_layers_made_one_by_one_are_those_of_all(policy):
    key = jax.random.key(4)
    layer = jax.jit(policy.init_layer)
    one_by_one = {number: layer(key, number) for number in range(policy.num_layers)}
    jax.tree.map(np.testing.assert_array_equal, one_by_one, FRESH(policy, key)["layers"])
    assert layer._cache_size() == 1


def test_a_new_adapter_changes_nothing():
    adapters, frozen = parameters_of(adapted(), trained=False)
    assert any(jnp.any(leaf) for leaf in jax.tree.leaves(adapters))  # A
    np.testing.assert_array_equal(log_probs(adapted(), union(adapters, frozen)), log_probs(BASE, frozen))


@pytest.mark.slow
@pytest.mark.parametrize("frozen", slow_after(1, ["nf4", "float32", "bfloat16", "int8", "int4"]))
def test_merged_parameters_compute_the_same(frozen):
    policy = adapted(frozen)
    parameters = union(*parameters_of(policy, trained=True))
    whole = merged(parameters, policy.lora)
    assert jax.tree.structure(whole) == jax.tree.structure(FRESH(BASE, jax.random.key(0)))
    ours, theirs = log_probs(policy, parameters), log_probs(BASE, whole)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    untrained = union(*parameters_of(policy, trained=False))
    assert np.abs(ours - log_probs(policy, untrained)).max() > 0.01


def test_merging_is_not_rounded_as_a_step_is():
    parameters = FRESH(adapted(), jax.random.key(0))
    with jax.default_matmul_precision("default"):
        program = str(jax.make_jaxpr(lambda parameters: merged(parameters, adapted().lora))(parameters))
    products = program.count("dot_general")
    assert products == BASE.num_layers * len(TARGETS) == program.count("precision=(Precision.HIGHEST")


# Half the distance between neighbouring values, as a share of the largest of its block: 1 / (2 * 127), 1 / (2 * 7),
# and half of the widest gap of NF4, that between -1 and -0.6962 (arXiv 2305.14314, appendix E).
@pytest.mark.parametrize(("dtype", "error"), [("int8", 1 / 254), ("int4", 1 / 14), ("nf4", (1 - 0.6962) / 2)])
def test_few_bits_are_near_the_matrix_they_stand_for(dtype, error):
    _, frozen = split(FRESH(adapted(), jax.random.key(0)))
    before = jax.tree.map(np.asarray, frozen)
    few_bits = stored(dtype, frozen)
    after = merged(few_bits, LoRA())
    kernel, there = before["layers"][0]["mlp"]["gate_proj"]["kernel"], after["layers"][0]["mlp"]["gate_proj"]["kernel"]
    blocks = kernel.reshape(2, 64, -1)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    distance = np.abs(blocks - np.asarray(there).reshape(blocks.shape)) / largest
    assert error / 4 < distance.max() < error * 1.001
    for name in ("embed_tokens", "lm_head", "norm"):
        jax.tree.map(np.testing.assert_array_equal, before[name], few_bits[name])
    np.testing.assert_array_equal(
        before["layers"][0]["self_attn"]["q_proj"]["bias"], few_bits["layers"][0]["self_attn"]["q_proj"]["bias"]
    )


@pytest.mark.parametrize("frozen", slow_after(1, ["nf4", "float32"]))
def test_gradients_reach_the_adapters_through_frozen_matrices(frozen):
    policy = adapted(frozen)
    adapters, rest = parameters_of(policy, trained=True)

    def loss(adapters):
        return log_probs(policy, union(adapters, rest)).sum()

    gradient = jax.device_get(jax.jit(jax.grad(loss))(adapters))
    assert jax.tree.structure(gradient) == jax.tree.structure(adapters)
    assert all(leaf.any() for leaf in jax.tree.leaves(gradient))
    moved = (
        jax.tree.map(lambda leaf, way, step=step: leaf + step * np.sign(way), adapters, gradient)
        for step in (np.float32(3e-4), np.float32(-3e-4))
    )
    ahead, behind = (float(loss(there)) for there in moved)
    slope = sum(np.abs(leaf).sum() for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose((ahead - behind) / 6e-4, slope, rtol=0.01)


@pytest.mark.parametrize("frozen", slow_after(1, ["bfloat16", "float32", *FEW_BITS]))
def test_rematerialised_layers_have_the_same_gradient(frozen):
    """The layers' matrices are slices of stacks, which bfloat16 and few bits need in another type."""
    policy = adapted(frozen)
    adapters, rest = parameters_of(policy, trained=True)
    with jax.set_mesh(own_device_mesh()):
        gradient, same = (
            jax.jit(jax.grad(lambda own, policy=policy: log_probs(policy, union(own, rest)).sum()))(adapters)
            for policy in (policy, dataclasses.replace(policy, remat="layer"))
        )
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5 * largest), same, gradient)


@pytest.mark.parametrize("frozen", FEW_BITS)
def test_no_matrix_of_few_bits_is_stored_for_the_backward_pass(frozen):
    policy = adapted(frozen)
    adapters, rest = parameters_of(policy, trained=True)
    backward = jax.eval_shape(lambda ours: jax.vjp(lambda own: log_probs(policy, union(own, rest)), ours)[1], adapters)
    kernel = rest["layers"][0]["mlp"]["gate_proj"]["kernel"].qvalue
    like_kernels = [leaf for leaf in jax.tree.leaves(backward) if leaf.shape == kernel.shape]
    assert {leaf.dtype for leaf in like_kernels} == {kernel.dtype}


@pytest.mark.parametrize("frozen", ["bfloat16", "int4"])
def test_every_rule_places_something(frozen):
    policy = adapted(frozen)
    check_placement_rules(policy.placement_rules, *parameters_of(policy, trained=False))
