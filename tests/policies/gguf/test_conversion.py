"""A model that was written as a GGUF file comes back: weights, configuration, tokenizer, stops; or is refused."""

import json
import shutil
import struct
import subprocess
import sys
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.policies.gguf.configuration import configuration
from ipsrl.policies.gguf.conversion import import_gguf
from ipsrl.policies.gguf.file import File, read
from ipsrl.policies.gguf.reader import MOST_KEYS
from ipsrl.policies.gguf.tensors import write_weights
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters
from tests.policies.gguf.gguf_files import FAMILIES, write_gguf, write_model
from tests.tiers import slow_after

WEIGHTS = "model.safetensors"
HARD = (
    "  1 and 12345, it's I'LL\t\tx\r\n\n y  ",
    "naïve cafe\u0301 汉字 👍🏽 \u200b ﬁ",
    "<|im_start|>user\n<|im_end|> <|im_st",
    "",
)


@pytest.fixture(scope="module")
def qwen2(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("qwen2"), "qwen2")


@pytest.mark.parametrize("family", slow_after(3, ["llama 3", "qwen2", "gemma3", *sorted(FAMILIES)]))
def test_a_model_comes_back(family, tmp_path):
    from transformers import AutoTokenizer

    original = write_model(tmp_path, family)
    made = import_gguf(write_gguf(tmp_path / "model.gguf", original), tmp_path / "made")
    assert read_policy(made) == read_policy(original)
    weights, before = load_file(made / WEIGHTS), load_file(original / WEIGHTS)
    assert set(weights) == set(before)
    for name, values in before.items():
        np.testing.assert_array_equal(weights[name], values, strict=True)
    generation = json.loads((made / "generation_config.json").read_text())
    assert generation["eos_token_id"] == json.loads((original / "generation_config.json").read_text())["eos_token_id"]
    ours, theirs = AutoTokenizer.from_pretrained(made), AutoTokenizer.from_pretrained(original)
    for text in HARD:
        assert ours(text)["input_ids"] == theirs(text)["input_ids"]
        assert ours.decode(ours(text)["input_ids"]) == theirs.decode(theirs(text)["input_ids"])
    messages = [{"role": "user", "content": "2 + 2"}]
    assert ours.apply_chat_template(messages, tokenize=False) == theirs.apply_chat_template(messages, tokenize=False)
    assert (ours.eos_token, ours.pad_token, ours.bos_token) == (theirs.eos_token, theirs.pad_token, None)
    assert "apache-2.0" in (made / "README.md").read_text()
    assert load_parameters(made, read_policy(made))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "BF16"])
def test_quantised_tensors_are_what_the_package_makes_of_them(kind, qwen2, tmp_path):
    kind = gguf.GGMLQuantizationType[kind]
    made = import_gguf(write_gguf(tmp_path / "model.gguf", qwen2, kind=kind), tmp_path / "made")
    name = "model.layers.1.mlp.up_proj.weight"
    original = load_file(qwen2 / WEIGHTS)[name]
    expected = gguf.quants.dequantize(gguf.quants.quantize(original, kind), kind).reshape(original.shape)
    np.testing.assert_array_equal(load_file(made / WEIGHTS)[name], expected)
    assert not np.array_equal(expected, original)


def test_a_type_of_weights_may_be_chosen(qwen2, tmp_path):
    made = import_gguf(write_gguf(tmp_path / "model.gguf", qwen2), tmp_path / "made", dtype="bfloat16")
    weights, original = load_file(made / WEIGHTS), load_file(qwen2 / WEIGHTS)
    assert json.loads((made / "config.json").read_text())["dtype"] == "bfloat16"
    for name, values in original.items():
        np.testing.assert_array_equal(weights[name], values.astype(weights[name].dtype))
        assert weights[name].dtype == "bfloat16"


def test_large_models_are_split(qwen2, tmp_path):
    file, policy = read(write_gguf(tmp_path / "model.gguf", qwen2)), read_policy(qwen2)
    shutil.copy(qwen2 / "config.json", tmp_path)
    write_weights(tmp_path, file, policy, "float32", shard_bytes=50_000)
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    found = {name: values for shard in shards for name, values in load_file(shard).items()}
    assert set(found) == set(index) == set(load_file(qwen2 / WEIGHTS))


def test_every_token_that_ends_an_answer_is_a_stop(qwen2, tmp_path):
    change = metadata_with(tokenizer__ggml__eot_token_id=0, tokenizer__ggml__eom_token_id=7)
    made = import_gguf(write_gguf(tmp_path / "model.gguf", qwen2, change=change), tmp_path / "made")
    assert json.loads((made / "generation_config.json").read_text())["eos_token_id"] == [2, 0, 7]


def test_the_token_that_ends_a_turn_is_a_stop_though_the_file_names_another(qwen2, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", qwen2, change=metadata_with(tokenizer__ggml__eos_token_id=0))
    made = import_gguf(path, tmp_path / "made")
    assert json.loads((made / "generation_config.json").read_text())["eos_token_id"] == [0, 2]
    task = HypospaceBoolean("basic", 1)
    assert LanguageTask(task, str(made), 512, longest_prompt=4000).stop_tokens == (0, 2)


@pytest.mark.parametrize("family", ["llama 2", "gemma3"])
def test_sentence_pieces_are_read_as_they_are_written(family, tmp_path):
    from transformers import AutoTokenizer

    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"helo", "▁h", "lo"]
    kinds = [2, 3, 3, *[6] * 256, *[1] * 7]
    filling = [f"[PAD{number}]" for number in range(len(words), 512)]
    pieces = metadata_with(
        tokenizer__ggml__model="llama",
        tokenizer__ggml__tokens=[*words, *filling],
        tokenizer__ggml__token_type=[*kinds, *[5] * len(filling)],
        tokenizer__ggml__scores=[-float(number) for number in range(512)],
        **{f"tokenizer__ggml__{role}_token_id": number for number, role in enumerate(("unknown", "bos", "eos"))},
        tokenizer__ggml__padding_token_id=None,
    )
    path = write_gguf(tmp_path / "model.gguf", write_model(tmp_path, family), change=pieces)
    tokenizer = AutoTokenizer.from_pretrained(import_gguf(path, tmp_path / "made"))
    expected = {"llama 2": ["<s>", "▁h", "e", "l", "lo"], "gemma3": ["<s>", "h", "e", "l", "lo"]}
    assert tokenizer.convert_ids_to_tokens(tokenizer("hello")["input_ids"]) == expected[family]
    assert len(tokenizer) == len(words)


GEMMA = {
    "context_length": 8192,
    "embedding_length": 96,
    "feed_forward_length": 64,
    "attention.head_count": 4,
    "attention.key_length": 16,
    "attention.layer_norm_rms_epsilon": 1e-6,
}


def described(name, **further):
    values = {f"{name}.{key}": value for key, value in (GEMMA | further).items()}
    embeddings = {"token_embd.weight": SimpleNamespace(shape=np.array([96, 512]))}
    return configuration(File("x.gguf", {"general.architecture": name} | values, embeddings))


@pytest.mark.parametrize(("name", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_the_largest_gemma_scales_its_queries_by_the_width_of_the_stream(name, layers):
    assert described(name, block_count=layers)["query_pre_attn_scalar"] == 96 // 4
    assert described(name, block_count=layers - 1)["query_pre_attn_scalar"] == 16


def test_gemma_has_the_defaults_of_llama_cpp():
    second, third = described("gemma2", block_count=3), described("gemma3", block_count=7)
    assert second["layer_types"] == ["sliding_attention", "full_attention", "sliding_attention"]
    assert (second["sliding_window"], second["attn_logit_softcapping"], second["final_logit_softcapping"]) == (
        4096,
        50.0,
        30.0,
    )
    assert set(third["layer_types"]) == {"full_attention"}
    third = described("gemma3", block_count=7, **{"attention.sliding_window": 512})
    assert third["layer_types"] == ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]


def metadata_with(**values):
    """A change of metadata, `__` in place of `.`; None removes a key."""

    def change(metadata, tensors):
        for key, value in values.items():
            metadata.pop(key.replace("__", "."), None)
            if value is not None:
                metadata[key.replace("__", ".")] = value

    return change


def tensors_with(**values):
    def change(metadata, tensors):
        for key, value in values.items():
            name = key.replace("__", ".")
            tensors.pop(name, None)
            if value is not None:
                tensors[name] = np.full(value, 3.0, np.float32)

    return change


def not_finite(metadata, tensors):
    tensors["output_norm.weight"][3] = np.nan


REFUSED = {
    "another architecture": (metadata_with(general__architecture="mamba"), "the architecture 'mamba', but only llama"),
    "a mixture of experts": (metadata_with(qwen2__expert_count=8), "is a mixture of experts"),
    "one of several files": (metadata_with(split__count=2), "is one of several files of a model: merge them"),
    "an unknown key": (metadata_with(qwen2__logit_scale=0.5), r"qwen2\.logit_scale 0\.5, which has no counterpart"),
    "a window": (metadata_with(qwen2__attention__sliding_window=8), "sliding_window 8, which has no counterpart"),
    "no length": (metadata_with(qwen2__context_length=None), r"context_length None, but must have a positive whole"),
    "heads by layer": (metadata_with(qwen2__attention__head_count=[4, 2]), r"head_count \[4, 2\], but must have"),
    "half rotated": (
        metadata_with(qwen2__rope__dimension_count=4),
        "dimension_count 4, but only .* width of a head, 8",
    ),
    "heads that do not fit": (metadata_with(qwen2__attention__head_count_kv=3), "num_key_value_heads 3 must divide"),
    "an unknown scaling": (
        metadata_with(qwen2__rope__scaling__type="longrope", qwen2__rope__scaling__factor=2.0),
        "the rope scaling 'longrope', but only none, linear, yarn",
    ),
    "a yarn without length": (
        metadata_with(qwen2__rope__scaling__type="yarn", qwen2__rope__scaling__factor=2.0),
        "original_context_length None, but must have",
    ),
    "unknown factors": (tensors_with(rope_freqs__weight=(4,)), "is not the scaling of Llama 3"),
    "too many dimensions": (tensors_with(x=(1, 1, 1, 1, 1)), r"'x' has the shape \[1, 1, 1, 1, 1\]"),
    "an unknown tensor": (tensors_with(blk__0__ssm_a=(4,)), "has the tensor 'blk.0.ssm_a', which qwen2 has no place"),
    "a missing tensor": (tensors_with(blk__1__attn_k__bias=None), "lacks the tensor 'blk.1.attn_k.bias'"),
    "no embeddings": (tensors_with(token_embd__weight=None), "lacks the tensor 'token_embd.weight'"),
    "another shape": (tensors_with(output_norm__weight=(33,)), r"'output_norm.weight' .* is \(33,\), but .* \(32,\)"),
    "NaN": (not_finite, "the tensor 'output_norm.weight' .* is not finite as float32"),
    "fewer embeddings": (tensors_with(token_embd__weight=(300, 32)), "has 512 tokens, but only 300 embeddings"),
    "another tokenizer": (metadata_with(tokenizer__ggml__model="bert"), "a tokenizer 'bert', but only gpt2 and llama"),
    "another pre-tokenizer": (
        metadata_with(tokenizer__ggml__pre="default"),
        "a pre-tokenizer 'default', but only gpt-2",
    ),
    "one that its family does not use": (metadata_with(tokenizer__ggml__pre="smollm"), "transformers reads models of"),
    "no merges": (metadata_with(tokenizer__ggml__merges=None), "merges None, but must have a list of texts"),
    "merges of nothing": (metadata_with(tokenizer__ggml__merges=["q zebra"]), "tokenizer of .* is damaged"),
    "a token twice": (metadata_with(tokenizer__ggml__tokens=["a"] * 512), "has a token twice"),
    "tokens of no type": (metadata_with(tokenizer__ggml__token_type=[1]), "of what type its 512 tokens are"),
    "layers without number": (metadata_with(qwen2__block_count=2**31), "block_count 2147483648, but may have 256 at"),
    "a list of lists": (metadata_with(qwen2__x=[[1], [2]]), "cut or damaged .*it has a list of lists"),
    "embeddings without dimensions": (tensors_with(token_embd__weight=()), r"'token_embd.weight' has the shape \[\]"),
    "a tensor without numbers": (tensors_with(x=(0, 32)), r"the tensor 'x' has the shape \[0, 32\]"),
    "embeddings of one dimension": (tensors_with(token_embd__weight=(512,)), r"is \(512,\), but its metadata says"),
    "an end that is no token": (metadata_with(tokenizer__ggml__eos_token_id=600), "eos_token_id 600, but 512 tokens"),
    "no end": (metadata_with(tokenizer__ggml__eos_token_id=None), "names no token that ends an answer"),
    "pieces without scores": (metadata_with(tokenizer__ggml__model="llama"), "does not give a score to each"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_expressed_is_refused(case, qwen2, tmp_path):
    change, message = REFUSED[case]
    path = write_gguf(tmp_path / "model.gguf", qwen2, change=change)
    assert_refused(path, message, tmp_path)


def assert_refused(path, message, tmp_path):
    before = set(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=message) as caught:
        import_gguf(path, tmp_path / "new" / "made")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert set(tmp_path.rglob("*")) <= before | {tmp_path / "new"}


def fewer_frequencies(metadata, tensors):
    tensors["rope_freqs.weight"] = tensors["rope_freqs.weight"][:4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            metadata_with(llama__attention__head_count=5),
            "describes no llama model .*hidden size .32. is not a multiple",
        ),
        (
            metadata_with(llama__attention__key_length=2**31, llama__attention__value_length=2**31),
            "the only one known in this form",
        ),
        (fewer_frequencies, "the only one known in this form"),
    ],
)
def test_sizes_that_do_not_belong_together_are_refused(change, message, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", write_model(tmp_path, "llama 3"), change=change)
    assert_refused(path, message, tmp_path)


@pytest.mark.parametrize("share", [0.9999, 0.002])
def test_a_file_that_is_cut_is_refused(share, qwen2, tmp_path):
    content = write_gguf(tmp_path / "whole.gguf", qwen2).read_bytes()
    (tmp_path / "cut.gguf").write_bytes(content[: int(len(content) * share)])
    assert_refused(tmp_path / "cut.gguf", "cut.gguf is cut or damaged .*: download it again", tmp_path)


def test_a_list_that_is_longer_than_its_file_is_refused_at_once(qwen2, tmp_path):
    content = write_gguf(tmp_path / "model.gguf", qwen2).read_bytes()
    key = b"tokenizer.ggml.token_type"
    # After the key: that it is a list, of which type, and how long.
    length = content.index(key) + len(key) + 8
    (tmp_path / "long.gguf").write_bytes(content[:length] + b"\xff" * 7 + b"\0" + content[length + 8 :])
    assert_refused(tmp_path / "long.gguf", "long.gguf is cut or damaged", tmp_path)


def header(tensors, keys, rest):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def one_list(kind, count, content):
    """A file with one key, which is a list of `count` entries, of which it holds this content."""
    return header(0, 1, struct.pack("<Q", 3) + b"a.b" + struct.pack("<IIQ", 9, kind, count) + content)


TEXT, LIST, BYTE = 8, 9, 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(0, MOST_KEYS + 1, b"\0" * 1000), "it says that it has 10001 keys, more than 10000"),
        (header(2**60, 0, b"\0" * 1000), "it says that it has 1152921504606846976 tensors, more than 100000"),
        (one_list(TEXT, 5_000_000, b"\0" * 8 * 1000), "it says that it has 5000000 texts in lists, more than 2000000"),
        (one_list(TEXT, 1001, b"\0" * 8 * 1000), "it ends too early"),
        (one_list(TEXT, 1, b"\0" * 7), "it ends too early"),
        (one_list(TEXT, 1, b"\xff" * 8), "it ends too early"),
        (one_list(LIST, 5_000_000, b"\0" * 5_000_000), "it has a list of lists"),
        (one_list(BYTE, 5_000_001, b"\0" * 5_000_000), "it ends too early"),
        # As far as a file holds them, numbers are read at once.
        (one_list(BYTE, 5_000_000, b"\0" * 5_000_000), "has general.architecture None, but must have a text there"),
    ],
)
def test_what_no_model_needs_is_refused_before_it_is_read(content, message, tmp_path):
    (tmp_path / "large.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        import_gguf(tmp_path / "large.gguf", tmp_path / "made")


def test_lists_are_those_of_the_package(qwen2, tmp_path):
    path = write_gguf(
        tmp_path / "model.gguf",
        qwen2,
        change=metadata_with(a__numbers=[1.5, -2.0], a__flags=[True, False], a__words=["", "\u00e9"]),
    )
    ours = read(path).metadata
    theirs = {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()}
    assert ours == theirs
    assert (ours["a.numbers"], ours["a.flags"], ours["a.words"]) == ([1.5, -2.0], [True, False], ["", "\u00e9"])


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04 a wheel"])
def test_a_file_of_another_kind_is_refused(content, tmp_path):
    (tmp_path / "other").write_bytes(content)
    assert_refused(tmp_path / "other", "is not a GGUF file, which begins with the letters GGUF", tmp_path)


def test_no_file_and_no_room_are_refused(qwen2, tmp_path):
    assert_refused(tmp_path / "none", "there is no file", tmp_path)
    path = write_gguf(tmp_path / "model.gguf", qwen2)
    (tmp_path / "made").mkdir()
    with pytest.raises(ValueError, match="made exists already: choose a new folder"):
        import_gguf(path, tmp_path / "made")
    with pytest.raises(ValueError, match=r"model\.gguf is a file, so .* cannot be in it"):
        import_gguf(path, path / "x")


def test_a_type_that_cannot_be_dequantised_is_refused(qwen2, tmp_path):
    def change(metadata, tensors):
        tensors["output_norm.weight"] = np.ones(32, np.int32)

    path = write_gguf(tmp_path / "model.gguf", qwen2, change=change)
    assert_refused(path, "'output_norm.weight' .* stored as I32, which the package gguf cannot", tmp_path)


def test_the_missing_package_is_named(qwen2, tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "model.gguf", qwen2)
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert_refused(path, r'pip install -e "\.\[gguf\]"$', tmp_path)


@pytest.mark.slow
def test_the_command_needs_no_torch(qwen2, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", qwen2)
    program = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv[0] = 'x';"
        "runpy.run_module('scripts.import_gguf', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", program, f"--gguf={path}", f"--out={tmp_path / 'made'}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    command, folder = done.stdout.splitlines()
    assert f"experiments.one_of_many --model_dir={folder}" in command
    assert folder == str(tmp_path / "made")
    assert read_policy(folder) == read_policy(qwen2)
