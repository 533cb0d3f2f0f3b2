"""Import and export without PyTorch: round trips, shardings, and everything that a folder can have wrong."""

import contextlib
import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ipsrl.policies.hugging_face import weights
from ipsrl.policies.hugging_face.configuration import num_positions, read_policy
from ipsrl.policies.hugging_face.weights import load_parameters, save, stored_tensors
from tests.policies.hugging_face.decoder_families import FAMILIES, random_parameters, write_checkpoint, write_config
from tests.tiers import slow_after

pytestmark = pytest.mark.eight_devices

MODEL = "model.safetensors"


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.fixture(scope="module")
def qwen2(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("qwen2"), "qwen2")


@pytest.fixture
def folder(qwen2, tmp_path):
    """A copy of a checkpoint of Qwen2 with tied embeddings, to be spoilt."""
    return shutil.copytree(qwen2[0], tmp_path / "copy")


def rewrite(folder, change):
    """Changes the tensors of a folder: `change` gets and returns a dict."""
    save_file(change(load_file(folder / MODEL)), folder / MODEL)


def load(folder):
    return load_parameters(folder, read_policy(folder))


@pytest.mark.parametrize("family", slow_after(3, list(FAMILIES)))
def test_export_and_import_are_inverse(family, tmp_path):
    folder, policy, parameters = write_checkpoint(tmp_path, family)
    assert read_policy(folder) == policy
    loaded = load_parameters(folder, policy)
    assert {leaf.dtype for leaf in jax.tree.leaves(loaded)} == {jnp.dtype("float32")}
    assert_same(loaded, parameters)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_type_of_the_source_is_kept(dtype, tmp_path):
    folder, policy, parameters = write_checkpoint(tmp_path, "qwen3", dtype=dtype)
    assert json.loads((folder / "config.json").read_text())["dtype"] == dtype
    loaded = load_parameters(folder, policy)
    rounded = jax.tree.map(lambda leaf: leaf.astype(dtype).astype(jnp.float32), parameters)
    assert_same(loaded, rounded)
    in_bfloat16 = load_parameters(folder, policy, dtype="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(in_bfloat16)} == {jnp.dtype("bfloat16")}
    save(tmp_path / "again", policy, loaded, folder)
    assert (tmp_path / "again" / MODEL).read_bytes() == (folder / MODEL).read_bytes()


def test_files_are_split_at_a_size(tmp_path):
    folder, policy, parameters = write_checkpoint(tmp_path, "qwen3", shard_bytes=20_000)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    assert len(files) > 2
    assert files == sorted(set(index["weight_map"].values()))
    assert index["metadata"]["total_size"] == 4 * sum(leaf.size for leaf in jax.tree.leaves(parameters))
    for file in files:
        tensors = load_file(folder / file)
        assert len(tensors) == 1 or sum(tensor.nbytes for tensor in tensors.values()) <= 20_000
    assert_same(load_parameters(folder, policy), parameters)


def test_what_belongs_to_the_tokenizer_is_copied_and_a_failed_export_leaves_nothing(tmp_path, qwen2, monkeypatch):
    _, policy, parameters = qwen2
    source = write_config(tmp_path / "source", "qwen2")
    copied = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja", "vocab.json")
    for name in (*copied, "training_args.bin", MODEL):
        (source / name).write_text(name)
    for name in ("tokenizer_old", "chat_templates", "vocab.d"):
        (source / name).mkdir()
        (source / name / "tokenizer.json").touch()
    (source / "tokenizer_older").symlink_to("nowhere")
    save(tmp_path / "out" / "export", policy, parameters, source)
    assert {path.name for path in (tmp_path / "out" / "export").iterdir()} == {*copied, "config.json", MODEL}
    assert (tmp_path / "out" / "export" / MODEL).stat().st_mode == (source / "config.json").stat().st_mode

    def fail(*arguments, **keywords):
        raise OSError("disk full")

    monkeypatch.setattr(weights, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path / "out" / "second", policy, parameters, source)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["export"]


class CountedFile(contextlib.nullcontext):
    """A safetensors file that counts the elements that are read of each tensor."""

    def __init__(self, path, framework, counts):
        super().__init__(self)
        self.file, self.counts = safe_open(path, framework=framework), counts

    def offset_keys(self):
        return self.file.offset_keys()

    def get_slice(self, name):
        return CountedSlice(self.file.get_slice(name), self.counts.setdefault(name, []))


@dataclasses.dataclass(frozen=True)
class CountedSlice:
    tensor: object
    counts: list

    def __getattr__(self, attribute):
        return getattr(self.tensor, attribute)

    def __getitem__(self, index):
        values = self.tensor[index]
        self.counts.append(values.size)
        return values


@pytest.mark.parametrize("spec", [("data", "model"), (None, "model"), ("model",), ()], ids=str)
def test_each_device_reads_only_its_slice(qwen2, monkeypatch, spec):
    folder, policy, parameters = qwen2
    counts = {}
    monkeypatch.setattr(weights, "safe_open", lambda path, framework: CountedFile(path, framework, counts))
    mesh = jax.make_mesh((4, 2), ("data", "model"))

    def sharding_of(path, shape):
        axes = spec if len(shape) == 2 and not path.startswith("embed") else ()
        return NamedSharding(mesh, PartitionSpec(*axes))

    table = stored_tensors(policy)
    loaded = load_parameters(folder, policy, {path: sharding_of(path, table[path].shape) for path in table})
    assert_same(loaded, parameters)
    kernel = loaded["layers"][0]["mlp"]["down_proj"]["kernel"]
    assert kernel.sharding.spec == PartitionSpec(*spec)
    pieces = int(np.prod([mesh.shape[axis] for axis in spec if axis]))
    for path, tensor in stored_tensors(policy).items():
        size = int(np.prod(tensor.shape))
        cut = pieces if path.endswith("kernel") else 1
        # Every element once in all, however many devices hold it, and never more than one device's share at a time.
        assert counts[tensor.name] == [size // cut] * cut


@pytest.mark.parametrize("prefixes", [("language_model.model.", "language_model."), ("model.language_model.", "")])
def test_the_text_decoder_of_a_multi_modal_folder(tmp_path, prefixes):
    folder, policy, parameters = write_checkpoint(tmp_path, "gemma3")
    content = json.loads((folder / "config.json").read_text())
    content["final_logit_softcapping"] = None
    whole = {"model_type": "gemma3", "text_config": content, "vision_config": {"model_type": "siglip_vision_model"}}
    (folder / "config.json").write_text(json.dumps(whole | {"eos_token_id": [1, 7]}))

    def rename(tensors):
        body, head = prefixes
        renamed = {name.replace("model.", body, 1): tensor for name, tensor in tensors.items()}
        renamed[f"{head}lm_head.weight"] = tensors["model.embed_tokens.weight"]
        outside = "model." if body.startswith("model") else ""
        vision = {"vision_tower.vision_model.head.weight", "multi_modal_projector.mm_soft_emb_norm.weight"}
        return renamed | {outside + name: np.ones(3, np.float32) for name in vision}

    rewrite(folder, rename)
    policy = dataclasses.replace(policy, logit_soft_cap=None)
    assert read_policy(folder) == policy
    assert_same(load_parameters(folder, policy), parameters)
    save(tmp_path / "export", policy, parameters, folder)
    assert read_policy(tmp_path / "export") == policy
    assert_same(load(tmp_path / "export"), parameters)
    exported = json.loads((tmp_path / "export" / "config.json").read_text())
    assert exported["architectures"] == ["Gemma3ForCausalLM"]
    assert exported["eos_token_id"] == [1, 7]


def test_of_two_sets_of_weights_that_of_one_file_is_read(folder, qwen2):
    other = {name: 0 * tensor for name, tensor in load_file(folder / MODEL).items()}
    index = folder / "model.safetensors.index.json"
    for files, content in (("left-over.safetensors", other), ("lost.safetensors", None)):
        index.write_text(json.dumps({"weight_map": dict.fromkeys(other, files)}))
        if content is not None:
            save_file(content, folder / files)
        assert_same(load(folder), qwen2[2])


@pytest.mark.parametrize("prefix", ["", "language_model."])
def test_weights_of_a_model_that_was_saved_without_its_head(folder, qwen2, prefix):
    rewrite(folder, lambda t: {name.replace("model.", prefix, 1): tensor for name, tensor in t.items()})
    assert not any(name.startswith("model.") for name in load_file(folder / MODEL))
    assert_same(load(folder), qwen2[2])
    positions = {"rotary_emb.inv_freq": np.ones(4, np.float32)}
    rewrite(folder, lambda t: t | positions)
    assert_same(load(folder), qwen2[2])


def test_tensors_that_say_nothing_new_may_be_there(folder, qwen2):
    positions = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    rewrite(folder, lambda t: t | positions | {"lm_head.weight": t["model.embed_tokens.weight"]})
    assert_same(load(folder), qwen2[2])


K_PROJ = "model.layers.1.self_attn.k_proj.weight"


def without(name):
    return lambda tensors: {other: tensor for other, tensor in tensors.items() if other != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: without(K_PROJ)(without("model.norm.weight")(t)), rf"lacks the tensor '{K_PROJ}' and 1 more"),
        (lambda t: t | {"model.layers.2.mlp.up_proj.weight": t[K_PROJ]}, "has the tensor 'model.layers.2.mlp.up_proj"),
        (lambda t: t | {"lm_head.weight": 2 * t["model.embed_tokens.weight"]}, "lm_head.weight of .* differs from"),
        (lambda t: t | {"lm_head.weight": t["model.embed_tokens.weight"][1:].copy()}, "lm_head.weight of .* differs"),
        (lambda t: t | {"language_model." + K_PROJ: t[K_PROJ]}, "under two names"),
        (lambda t: t | {K_PROJ.removeprefix("model."): t[K_PROJ]}, "under two names"),
        (lambda t: t | {"classifier.weight": t[K_PROJ]}, "has the tensor 'classifier.weight', which"),
    ],
)
def test_bad_tensors(folder, change, message, monkeypatch):
    rewrite(folder, change)

    def never(*arguments, **keywords):
        raise AssertionError("weights were read")

    monkeypatch.setattr(jax, "make_array_from_callback", never)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_bad_files(folder):
    tensors = load_file(folder / MODEL)
    (folder / MODEL).unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, "model-1.safetensors")}))
    save_file(tensors | {"more": np.ones(2, np.float32)}, folder / "model-1.safetensors")
    with pytest.raises(ValueError, match=r"has the tensor 'more', which .* does not place there"):
        load(folder)
    save_file(tensors, folder / "model-1.safetensors")
    load(folder)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, "\0")}))
    with pytest.raises(ValueError, match=r"names the file '\\x00', but all files must lie in this folder"):
        load(folder)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("qwen2", {"model_type": "qwen2_moe"}, "names the model type 'qwen2_moe', but only llama, qwen2"),
        ("qwen2", {"quantization_config": {"quant_method": "gptq"}}, "has a quantization_config"),
        ("qwen2", {"hidden_act": "gelu"}, "hidden_act is 'gelu', but models of this family are supported with 'silu'"),
        ("qwen2", {"hidden_size": "wide"}, "is not a valid configuration of a qwen2 model"),
        ("qwen2", {"num_key_value_heads": 3}, "num_key_value_heads 3 must divide num_heads 4"),
        ("qwen2", {"layer_types": ["full_attention", "chunked_attention"]}, "'chunked_attention'"),
        ("gemma3", {"sliding_window": None}, "layer_types has sliding layers, but sliding_window is null"),
        (
            "llama 3",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "rope_type 'dynamic' is not supported, only default, linear, llama3 and yarn",
        ),
        (
            "llama 3",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "partial_rotary_factor is 0.5, but only whole heads",
        ),
        (
            "qwen2 with yarn",
            {"rope_parameters": FAMILIES["qwen2 with yarn"]["rope_parameters"] | {"mscale": 1.0}},
            "mscale and mscale_all_dim of yarn are not supported",
        ),
        ("gemma3", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0, which Gemma 3 does not have"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention is set"),
        ("gemma3", {"hidden_activation": "gelu"}, "hidden_activation is 'gelu'"),
    ],
)
def test_bad_configurations(tmp_path, family, changes, message):
    with pytest.raises(ValueError, match=message):
        read_policy(write_config(tmp_path, family, **changes))


@pytest.mark.parametrize(("family", "longest"), [("qwen2", 256), ("gemma3", 256), ("qwen2 with yarn", 32 * 16)])
def test_the_longest_text_is_that_after_stretching(tmp_path, family, longest):
    rope = {"rope_parameters": FAMILIES[family]["rope_parameters"] | {"factor": 16.0}} if "yarn" in family else {}
    assert num_positions(write_config(tmp_path, family, **rope)) == longest


def test_no_configuration(tmp_path):
    with pytest.raises(ValueError, match=r"config.json does not exist: give the folder of a Hugging Face checkpoint"):
        read_policy(tmp_path)


def test_a_policy_of_another_architecture(qwen2, tmp_path):
    folder, policy, _ = qwen2
    # How it computes is the caller's choice.
    load_parameters(folder, dataclasses.replace(policy, dtype="bfloat16", remat="layer", query_block=8))
    other = dataclasses.replace(policy, hidden_size=64)
    with pytest.raises(ValueError, match=r"The policy has hidden_size 64, but .*config.json says 32"):
        load_parameters(folder, other)
    with pytest.raises(ValueError, match=r"The policy has hidden_size 64"):
        save(tmp_path / "export", other, random_parameters(other), folder)


def test_exports_that_cannot_be(qwen2, tmp_path):
    folder, policy, parameters = qwen2
    with pytest.raises(ValueError, match="exists already: choose a new folder"):
        save(tmp_path, policy, parameters, folder)
    adapted = parameters | {"adapter": jnp.ones(2)}
    with pytest.raises(ValueError, match="have 'adapter', which does not belong to a checkpoint"):
        save(tmp_path / "export", policy, adapted, folder)
    lacking = {name: part for name, part in parameters.items() if name != "norm"}
    with pytest.raises(ValueError, match="have no 'norm/scale'"):
        save(tmp_path / "export", policy, lacking, folder)
    broken = parameters | {"norm": {"scale": jnp.full(32, jnp.nan)}}
    with pytest.raises(ValueError, match=r"the tensor 'model.norm.weight' is not finite: a model like that is not"):
        save(tmp_path / "export", policy, broken, folder)
    assert not (tmp_path / "export").exists()
    wrong = parameters | {"norm": {"scale": jnp.ones(7)}}
    with pytest.raises(ValueError, match=r"'norm/scale' to export is \(7,\), but must be \(32,\)"):
        save(tmp_path / "export", policy, wrong, folder)
    assert not (tmp_path / "export").exists()
