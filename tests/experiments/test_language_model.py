"""Language models in experiments: loaded onto a mesh, adapted, trained, exported, and refused where they cannot be."""

import dataclasses
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments.language_model import LanguageModel

from experiments import hypospace, text_tasks, warm_start
from experiments.launch import Output
from ipsrl.distributed import placement
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.hugging_face import load_parameters
from ipsrl.policies.hugging_face_config import read_policy
from ipsrl.policies.policy import union
from ipsrl.structures import Prompts
from ipsrl.training.warm_start import as_trajectories
from scripts.make_checkpoint import make_checkpoint

pytestmark = pytest.mark.eight_devices

MESH = "data:4,model:2"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    return str(make_checkpoint(folder, "qwen2", hidden_size=32, num_layers=1))


def settings(checkpoint, **changes):
    return dataclasses.replace(
        hypospace.PRESETS["smoke"],
        **{"policy": "hf", "model_dir": checkpoint, "seeds": "0", "objectives": "grpo(kl=0.1)", "steps": 2}
        | {"max_tokens": 4, "mesh": MESH, "answers": 4, "checkpoint_every": 1}
        | changes,
    )


def log_probs(policy, parameters):
    tokens = jax.random.randint(jax.random.key(0), (2, 9), 0, policy.vocabulary_size)
    prompts = Prompts(jnp.arange(2), tokens, jnp.ones(tokens.shape, bool))
    return jax.jit(lambda parameters: policy.prompt_log_probs(parameters, prompts, 1.0)[0])(parameters)


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


@pytest.mark.parametrize("frozen_dtype", ["float32", "bfloat16", "int8", "int4", "nf4"])
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


@pytest.mark.parametrize("frozen_dtype", ["float32", "nf4"])
def test_adapters_are_merged_when_exported(checkpoint, tmp_path, frozen_dtype):
    lora = LoRA(rank=2, targets=("q_proj", "down_proj"), frozen=frozen_dtype)
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


@pytest.mark.slow
@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_run_on_a_mesh_continues_and_leaves_a_model(checkpoint, tmp_path, lora_rank):
    asked = settings(checkpoint, lora_rank=lora_rank, export=True, dtype="bfloat16", remat="layer")
    text_tasks.run("hypospace", asked, Output(tmp_path, resume=False))
    (log,) = tmp_path.rglob("metrics.jsonl")
    before = log.read_text()
    assert [json.loads(line)["step"] for line in before.splitlines()] == [0, 1, 2]
    text_tasks.run("hypospace", asked, Output(tmp_path, resume=True))
    assert log.read_text() == before
    (folder,) = tmp_path.rglob("model")
    assert jax.tree.leaves(load_parameters(folder, read_policy(folder)))


@pytest.mark.slow
def test_a_supervised_start_teaches(checkpoint, tmp_path):
    asked = warm_start.Settings(
        model_dir=checkpoint, task="hypospace_causal(nodes=2)", steps=20, answers_per_prompt=2, mesh=MESH
    )
    warm_start.run(asked, Output(tmp_path, resume=False))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["complete"]
    # Killed before it was measured: what was taught is not taught again.
    (tmp_path / "summary.json").unlink()
    written = (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns
    warm_start.run(asked, Output(tmp_path, resume=True))
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns == written
    model = LanguageModel.read(checkpoint, "float32", "none", None)
    task = model.environment(environments.make(asked.task), asked.max_tokens, "", thinking=False)
    answer = jnp.asarray(task.render(0))[None, None]
    taught = as_trajectories(task.prompts(jnp.arange(1)), answer, jnp.array([[answer.size]]))
    before, after = (
        model.policy.score(load_parameters(folder, model.policy), taught, 1.0).log_probs.mean()
        for folder in (checkpoint, tmp_path / "model")
    )
    assert after > before + 1  # nats a token


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "big"}, "unknown policy 'big'; known: small, hf"),
        ({"model_dir": ""}, "hf, and only hf, has a folder"),
        ({"policy": "small", "model_dir": "", "max_tokens": 256, "lora_rank": 4}, "--lora_rank is for language models"),
        ({"policy": "small", "model_dir": "", "max_tokens": 256, "export": True}, "--export is for language models"),
        ({"policy": "small", "model_dir": "", "max_tokens": 9}, "--max_tokens is for language models"),
        ({"frozen_dtype": "int4"}, "--frozen_dtype=int4 is the type of what adapters are trained on: give --lora_rank"),
        ({"longest_prompt": 20}, "more than the 20 that are allowed: raise longest_prompt"),
        (
            {"longest_prompt": 4090, "max_tokens": 7},
            "longest_prompt 4090 and max_tokens 7 are together more than the 4096 positions",
        ),
        ({"model_dir": "/nowhere"}, "/nowhere/config.json does not exist"),
        ({"lora_rank": 4, "lora_targets": "q"}, "the targets of LoRA are some of"),
        ({"lora_rank": 4, "frozen_dtype": "int3"}, "frozen parameters are one of"),
        ({"lora_rank": -1}, "positive rank"),
        ({"dtype": "float16"}, "dtype is 'float16', but must be one of"),
        ({"remat": "all"}, "remat is 'all', but must be one of"),
        ({"max_tokens": 0}, "max_tokens is 0, it must be positive"),
        ({"mesh": "data:2,model:4"}, "num_key_value_heads is 2, which cannot be split evenly over the 4 devices"),
        ({"tasks": "bandit"}, "bandit is no text task"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ",".join(value),
)
def test_what_cannot_be_is_refused_before_weights_are_read(checkpoint, changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        text_tasks.run("hypospace", settings(checkpoint, **changes), Output(tmp_path, resume=False))
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.parametrize(
    ("mesh", "answers", "prompts"),
    [("data:8", 8, 16), ("data:8", 4, 16), ("data:8", 16, 8), ("data:8", 1000, 8), ("data:2,model:4", 20, 6)],
)
def test_an_evaluation_samples_no_more_at_once_than_training(mesh, answers, prompts):
    training = types.SimpleNamespace(prompts_per_step=16, group_size=8)
    grid = types.SimpleNamespace(settings=training, mesh=make_mesh(mesh))
    assert text_tasks.prompts_at_once(grid, answers) == prompts


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"model_dir": ""}, "--model_dir is missing"), ({"task": "bandit"}, "no list of answers to teach")],
)
def test_bad_supervised_starts_are_refused(checkpoint, changes, message, tmp_path):
    asked = dataclasses.replace(warm_start.Settings(model_dir=checkpoint), **changes)
    with pytest.raises(ValueError, match=message):
        warm_start.run(asked, Output(tmp_path, resume=False))
