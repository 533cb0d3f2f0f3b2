"""Training of adapters in the loop: what is frozen is neither moved, nor copied, nor saved."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orbax.checkpoint import v1 as ocp

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.distributed.placement import place, placements
from ipsrl.policies.adapters import LoRA, frozen_as, split
from ipsrl.policies.policy import union
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import WHOLE_BATCH, TrainState, compiled_update
from ipsrl.training.storage import stored_tree
from tests.sampled_groups import collect
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER
from tests.training.in_the_loop import trained

pytestmark = [pytest.mark.slow, pytest.mark.eight_devices, pytest.mark.usefixtures("_small_leaves_are_cut")]

OBJECTIVE = "grpo(kl=0.1)"
SETTINGS = TrainSettings(
    steps=4, prompts_per_step=8, group_size=4, learning_rate=0.02, evaluate_every=2, checkpoint_every=2
)


def adapted(frozen="float32"):
    return dataclasses.replace(TRANSFORMER, num_key_value_heads=2, lora=LoRA(rank=2, frozen=frozen))


def parts(policy, mesh):
    adapters, frozen = split(policy.init(jax.random.key(0)))
    frozen = jax.tree.map_with_path(
        lambda path, leaf: frozen_as(policy.lora.frozen, jax.tree_util.keystr(path, simple=True, separator="/"), leaf),
        frozen,
    )
    return adapters, place(frozen, placements(policy.placement_rules, frozen, mesh), mesh)


def run(path, policy, mesh_text, resume=False, steps=SETTINGS.steps):
    mesh = make_mesh(mesh_text)
    adapters, frozen = parts(policy, mesh)
    seen = []

    def evaluate(step, parameters):
        seen.append(parameters["layers"][0]["self_attn"]["q_proj"]["kernel"])
        return Evaluation({"lora_b": float(jnp.abs(parameters["layers"][0]["self_attn"]["q_proj"]["lora_b"]).sum())})

    settings = dataclasses.replace(SETTINGS, steps=steps)
    given = {"initial_parameters": adapters, "evaluate": evaluate, "frozen": frozen}
    state = trained(path, FIRST_TOKEN, policy, OBJECTIVE, settings, 3, mesh, resume, **given)
    return state, adapters, frozen, seen, metric_log.read(path / "metrics.jsonl")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("adapters") / "run"
    return path, *run(path, adapted(), "data:4,model:2")


def test_adapters_move_and_nothing_else(finished):
    _, state, adapters, frozen, seen, records = finished
    assert jax.tree.structure(state.parameters) == jax.tree.structure(adapters)
    for before, after in zip(jax.tree.leaves(adapters), jax.tree.leaves(state.parameters), strict=True):
        assert np.abs(np.asarray(before) - after).max() > 1e-3
    # Every evaluation saw the very buffer that was given: it was never copied.
    kernel = frozen["layers"][0]["self_attn"]["q_proj"]["kernel"]
    assert len(seen) == 3
    assert all(leaf is kernel for leaf in seen)
    assert records[0]["evaluation/lora_b"] == 0 < records[-1]["evaluation/lora_b"]
    assert all(record["sampler_scorer_difference"] < 1e-4 for record in records[1:])


def test_the_reference_is_the_model_without_adapters(finished):
    *_, records = finished
    assert records[1]["reference_kl"] == pytest.approx(0, abs=1e-6)
    assert records[-1]["reference_kl"] > 1e-4


def test_checkpoints_hold_adapters_alone(finished):
    path, state, *_ = finished
    saved = ocp.metadata(path / "checkpoints" / "4").metadata
    assert saved.keys() == stored_tree.storable(state).keys()
    assert not any("kernel" in name for name in saved)


def test_an_interrupted_run_ends_the_same(finished, tmp_path):
    _, state, *_ = finished
    run(tmp_path / "run", adapted(), "data:4,model:2", steps=2)
    resumed, *_ = run(tmp_path / "run", adapted(), "data:4,model:2", resume=True)
    jax.tree.map(np.testing.assert_array_equal, resumed, state)


def test_meshes_agree(finished, tmp_path):
    _, state, *_ = finished
    other, *_ = run(tmp_path / "run", adapted(), "data:1,model:2,replica:4")
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), other.parameters, state.parameters)


@pytest.mark.parametrize("frozen", ["bfloat16", "int4"])
def test_every_type_of_frozen_weights_trains(frozen, tmp_path):
    state, adapters, _, _, records = run(tmp_path / "run", adapted(frozen), "data:4,model:2")
    assert all(np.isfinite(record["loss"]) for record in records[1:])
    for before, after in zip(jax.tree.leaves(adapters), jax.tree.leaves(state.parameters), strict=True):
        assert np.abs(np.asarray(before) - after).max() > 1e-3


def test_a_step_holds_the_frozen_weights_once():
    """The reference policy shares them: the arguments of the compiled step are one model, and adapters."""
    policy, objective, optimizer = adapted(), objectives.make(OBJECTIVE), make_optimizer()
    adapters, frozen = parts(policy, make_mesh("replica:-1"))
    state = dataclasses.replace(TrainState.create(adapters, objective, optimizer, FIRST_TOKEN), reference=adapters)
    groups = collect(FIRST_TOKEN, policy, union(adapters, frozen), choose_prompts(FIRST_TOKEN, 3, 0, 8), 3, 0, 4, 1.0)
    arguments = (state, *groups, jax.random.key(0), frozen)
    compiled = compiled_update.lower(
        *jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arguments),
        policy=policy,
        objective=objective,
        optimizer=optimizer,
        batching=WHOLE_BATCH,
        temperature=1.0,
    ).compile()
    once = sum(leaf.nbytes for leaf in jax.tree.leaves((state, groups, frozen)))
    assert compiled.memory_analysis().argument_size_in_bytes < 1.05 * once
