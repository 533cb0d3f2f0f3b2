import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.distributed import placement
from ipsrl.distributed.mesh import make_mesh
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters
from ipsrl.policies.policy import union
from ipsrl.structures import Prompts
from ipsrl.training.language_model import LanguageModel

pytestmark = pytest.mark.eight_devices

MESH = "data:4,model:2"


@functools.partial(jax.jit, static_argnums=0)
def log_probs(policy, parameters):
    tokens = np.random.default_rng(0).integers(0, policy.vocabulary_size, (2, 9))
    prompts = Prompts(jnp.arange(2), jnp.asarray(tokens), jnp.ones(tokens.shape, bool))
    return policy.prompt_log_probs(parameters, prompts, 1.0)[0]


def test_what_is_loaded_onto_a_mesh_is_what_is_exported(checkpoint, tmp_path):
    model, mesh = LanguageModel.read(checkpoint, "float32", "none", None), make_mesh(MESH)
    start, frozen = model.load(mesh)
    assert frozen is None
    parameters = start()
    kernel = parameters["layers"][0]["mlp"]["up_proj"]["kernel"]
    assert {shard.data.shape for shard in kernel.addressable_shards} == {(32, 48)}
    assert not any(map(np.shares_memory, *map(jax.tree.leaves, (jax.device_get(start()), jax.device_get(parameters)))))
    model.export(tmp_path / "export", parameters, None)
    again = load_parameters(tmp_path / "export", read_policy(tmp_path / "export"))
    jax.tree.map(np.testing.assert_array_equal, again, jax.device_get(parameters))


@pytest.mark.parametrize("frozen_dtype", ["bfloat16", "int8", "nf4"])
def test_frozen_weights_lie_where_the_rules_say(checkpoint, frozen_dtype, monkeypatch):
    monkeypatch.setattr(placement, "SMALLEST_SHARED", 0)
    model, mesh = LanguageModel.read(checkpoint, "float32", "none", LoRA(frozen=frozen_dtype)), make_mesh(MESH)
    _, frozen = model.load(mesh)
    expected = placement.shardings(placement.placements(model.policy.placement_rules, frozen, mesh), mesh)
    jax.tree.map(lambda leaf, there: _same(leaf.sharding, there, leaf.ndim), frozen, expected)
    kernel = jax.tree.leaves(frozen["layers"][0]["mlp"]["up_proj"]["kernel"])[0]
    assert {shard.data.shape for shard in kernel.addressable_shards} == {(8, 48)}


def _same(ours, theirs, dimensions):
    assert ours.is_equivalent_to(theirs, dimensions), f"{ours} is not {theirs}"


def test_adapters_are_merged_when_exported(checkpoint, tmp_path):
    lora = LoRA(rank=2, targets=("q_proj", "down_proj"), frozen="nf4")
    model, mesh = LanguageModel.read(checkpoint, "float32", "none", lora), make_mesh(MESH)
    adapters, frozen = model.load(mesh)
    adapters = jax.tree.map(lambda leaf: leaf + 0.1, adapters)
    model.export(tmp_path / "export", adapters, frozen)
    policy = read_policy(tmp_path / "export")
    ours = log_probs(policy, load_parameters(tmp_path / "export", policy))
    with jax.set_mesh(mesh):
        theirs = log_probs(model.policy, union(adapters, frozen))
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    assert np.abs(ours - log_probs(policy, load_parameters(checkpoint, policy))).max() > 0.01
