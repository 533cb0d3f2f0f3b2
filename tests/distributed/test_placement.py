"""Rules that place parameters, on meshes over eight CPU devices."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from ipsrl.distributed import placement
from ipsrl.distributed.mesh import make_mesh
from ipsrl.distributed.placement import (
    NO_PARAMETER,
    REPLICATED,
    PlacementRule,
    check_placement_rules,
    check_units,
    constrain,
    follow,
    gathered,
    placements,
    shardings,
    table,
)
from ipsrl.policies.transformer import Transformer

pytestmark = pytest.mark.eight_devices

RULES = (
    PlacementRule("block/(in|out)/kernel", PartitionSpec("data", "model"), dtype="bfloat16"),
    PlacementRule("block/.*", PartitionSpec("model")),
    PlacementRule(".*", PartitionSpec()),
)


def tree(columns=512):
    return {
        "block": {"in": {"kernel": jnp.ones((256, columns)), "bias": jnp.ones(columns)}, "odd": jnp.ones(7)},
        "scale": jnp.ones(5),
    }


def specs(placed):
    return jax.tree.map(lambda place: tuple(place.spec), placed)


def test_the_first_rule_that_matches_a_whole_path_places_a_leaf():
    placed = placements(RULES, tree(), make_mesh("data:4,model:2"))
    assert specs(placed) == {
        "block": {"in": {"kernel": ("data", "model"), "bias": ("model",)}, "odd": (None,)},
        "scale": (),
    }
    assert placed["block"]["odd"].remark == "replicated along model: 7 is not a multiple of 2"
    assert placed["block"]["in"]["kernel"].rule is RULES[0]


@pytest.mark.parametrize(
    ("mesh", "columns", "spec", "remark"),
    [
        ("data:8", 512, ("data", None), ""),
        ("model:8", 512, (None, "model"), ""),
        ("data:1,model:8", 512, (None, "model"), ""),
        ("replica:8", 512, (None, None), ""),
        ("data:4,model:2", 513, ("data", None), "replicated along model: 513 is not a multiple of 2"),
        # 256 x 128 elements are not worth a transfer, but heads and features are sharded whatever their size.
        ("data:4,model:2", 128, (None, "model"), "replicated along data: small"),
    ],
)
def test_meshes_and_sizes(mesh, columns, spec, remark):
    placed = placements(RULES, tree(columns), make_mesh(mesh))["block"]["in"]["kernel"]
    assert (tuple(placed.spec), placed.remark) == (spec, remark)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (RULES[:1], "no placement rule matches the parameter 'block/in/bias': end the rules with one for '.*'"),
        ((PlacementRule("block", PartitionSpec()), *REPLICATED), "the placement rule 'block' places no parameter"),
        # A rule that earlier ones leave nothing to.
        ((*REPLICATED, RULES[0]), "the placement rule 'block/(in|out)/kernel' places no parameter"),
    ],
)
def test_rules_that_do_not_fit_the_parameters(rules, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_placement_rules(rules, tree())


def test_a_rule_with_more_axes_than_a_parameter():
    rules = (PlacementRule("block/.*", PartitionSpec("data", "model")), *REPLICATED)
    message = r"^the placement rule 'block/\.\*' has 2 axes, but matches a parameter of shape \(512,\)$"
    with pytest.raises(ValueError, match=message):
        placements(rules, tree(), make_mesh("data:4,model:2"))


def test_rules_are_checked_for_several_trees_together():
    check_placement_rules(
        RULES, {"block": {"in": {"kernel": jnp.ones((8, 8))}}}, {"block": [jnp.ones(8)]}, [jnp.ones(3)]
    )


@pytest.mark.parametrize(
    ("heads", "key_value_heads", "problem", "sizes"),
    [(6, 2, "num_heads is 6", "1, 2, 3, 6"), (8, 2, "num_key_value_heads is 2", "1, 2")],
)
def test_heads_are_never_cut(heads, key_value_heads, problem, sizes):
    policy = Transformer(16, hidden_size=48, num_heads=heads, num_key_value_heads=key_value_heads)
    message = (
        f"^{problem}, which cannot be split evenly over the 4 devices of mesh axis 'model': choose a --mesh with model "
        f"one of {sizes}, and give the other devices to 'data'$"
    )
    with pytest.raises(ValueError, match=message):
        check_units(policy.placement_rules, make_mesh("data:2,model:4"))
    check_units(policy.placement_rules, make_mesh("data:4,model:2"))
    check_units(policy.placement_rules, make_mesh("data:8"))


@pytest.mark.parametrize("tied", [True, False])
def test_every_matrix_of_a_transformer_is_cut_over_the_whole_mesh(tied):
    policy = Transformer(1024, hidden_size=512, num_heads=8, num_key_value_heads=8, tie_embeddings=tied)
    mesh = make_mesh("data:4,model:2")
    parameters = jax.eval_shape(policy.init, jax.random.key(0))
    check_placement_rules(policy.placement_rules, parameters)
    placed = placements(policy.placement_rules, parameters, mesh)
    for leaf, place in zip(jax.tree.leaves(parameters), jax.tree.leaves(placed), strict=True):
        assert set(place.spec) == ({"data", "model"} if leaf.ndim == 2 else set())
        assert not place.remark


@pytest.mark.parametrize(
    "optimizer", [optax.adam(1e-3), optax.chain(optax.clip(1.0), optax.adamw(1e-3)), optax.sgd(1.0)]
)
def test_what_an_optimiser_keeps_of_a_parameter_lies_where_it_does(optimizer):
    parameters = tree()
    placed = placements(RULES, parameters, make_mesh("data:4,model:2"))
    state = optimizer.init(parameters)
    followed = follow(optimizer, placed, state)
    assert jax.tree.structure(followed) == jax.tree.structure(state)
    by_shape = {leaf.shape: place for leaf, place in zip(*map(jax.tree.leaves, (parameters, placed)), strict=True)}
    for leaf, place in zip(*map(jax.tree.leaves, (state, followed)), strict=True):
        assert place == by_shape.get(leaf.shape, NO_PARAMETER)


def test_what_is_constrained_is_cut_and_what_is_whole_is_left_to_the_compiler():
    mesh = make_mesh("data:4,model:2")
    parameters = tree()
    placed = placements(RULES, parameters, mesh)
    with jax.set_mesh(mesh):
        made = jax.jit(lambda: constrain(jax.tree.map(jnp.ones_like, parameters), placed))()
    wanted = shardings(placed, mesh)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, w: a.sharding.is_equivalent_to(w, a.ndim), made, wanted)))
    alone = placements(REPLICATED, parameters, mesh)
    assert constrain(parameters, alone) is parameters


def test_a_program_that_uses_parameters_often_gathers_them_once():
    mesh = make_mesh("data:4,model:2")
    kernel = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    parameters = {"block": {"in": {"kernel": kernel}}}
    placed = jax.device_put(parameters, shardings(placements(RULES, parameters, mesh), mesh))

    @jax.jit
    def powers(parameters, x):
        kernel = gathered(parameters, RULES)["block"]["in"]["kernel"]
        assert kernel.dtype == jnp.bfloat16
        return jax.lax.fori_loop(0, x.shape[0], lambda _, x: jnp.tanh(x @ kernel), x)

    x = jnp.ones((16, 512), jnp.bfloat16)
    with jax.set_mesh(mesh):
        text = powers.lower(placed, x).compile().as_text()
    bodies = [body for body in text.split("\n\n") if re.search(r"= \S+\[512,256\]\S* all-gather\(", body)]
    assert len(bodies) == 1
    assert bodies[0].startswith("ENTRY")
    # Without a mesh a CPU has nothing to gather, and nothing to save by another type.
    assert gathered(parameters, RULES)["block"]["in"]["kernel"] is kernel


def test_an_accelerator_rounds_parameters_once_without_a_mesh_as_well(monkeypatch):
    monkeypatch.setattr(placement, "platform", lambda: "gpu")
    types = jax.tree.map(lambda leaf: str(leaf.dtype), gathered(tree(), RULES))
    inner = {"kernel": "bfloat16", "bias": "float32"}
    assert types == {"block": {"in": inner, "odd": "float32"}, "scale": "float32"}


def test_the_table_counts_what_the_devices_hold():
    mesh = make_mesh("data:4,model:2")
    parameters = tree()
    placed = placements(RULES, parameters, mesh)
    lines = table(placed, parameters, mesh).splitlines()
    arrays = jax.tree.leaves(jax.device_put(parameters, shardings(placed, mesh)))
    one_device = sum(array.addressable_shards[0].data.nbytes for array in arrays)
    in_all = sum(array.nbytes for array in arrays)
    assert lines[0].split() == ["placement", "sharded", "along", "leaves", "bytes", "per", "device"]
    assert lines[1].split() == ["block/(in|out)/kernel", "data,", "model", "1", "524,288", "65,536"]
    assert re.search(
        r"block/\.\* +replicated +1 +28 +28  replicated along model: 7 is not a multiple of 2$", "\n".join(lines), re.M
    )
    assert re.search(r"\.\* +replicated +1 +20 +20$", "\n".join(lines), re.M)
    assert lines[-1].split() == ["mesh", "data:4,model:2", "4", f"{in_all:,}", f"{one_device:,}"]


def test_small_leaves_of_a_transformer_stay_whole():
    """So small runs on many devices have no further communication."""
    policy = Transformer(32)
    parameters = jax.eval_shape(policy.init, jax.random.key(0))
    placed = placements(policy.placement_rules, parameters, make_mesh("data:8"))
    assert all(place.spec in (PartitionSpec(), PartitionSpec(None, None)) for place in jax.tree.leaves(placed))
    assert max(leaf.size for leaf in jax.tree.leaves(parameters)) < placement.SMALLEST_SHARED
