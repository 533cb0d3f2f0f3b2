"""A damaged folder of a language model ends in one sentence that names the file, whatever the damage."""

import json
import os
import pickle
import shutil
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.hypospace_boolean import HypospaceBoolean
from ipsrl.study.language_model import LanguageModelFlags
from scripts.make_checkpoint import make_checkpoint

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
CONFIG, TOKENIZER, GENERATION = "config.json", "tokenizer.json", "generation_config.json"
SETTINGS, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"


def written(name, content):
    """The damage that a file holds this: bytes, or JSON."""

    def damage(folder):
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            (folder / name).write_text(json.dumps(content))

    return damage


def changed(name, **values):
    """The damage that keys of a JSON object have other values."""

    def damage(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return damage


def cut(name, share=0.5):
    """The damage of a download that ended early."""

    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return damage


def missing(*names):
    def damage(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return damage


def index_alone(weight_map):
    """The damage of an index without the weights."""

    def damage(folder):
        missing(WEIGHTS)(folder)
        written(INDEX, {"weight_map": weight_map})(folder)

    return damage


def folder_in_place_of(name):
    def damage(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return damage


def link_to_nowhere(name):
    def damage(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("nowhere")

    return damage


def template_in_settings(content):
    def damage(folder):
        missing(TEMPLATE)(folder)
        changed(SETTINGS, chat_template=content)(folder)

    return damage


def tensors(change):
    """The damage that `change` does to the tensors, name -> array."""

    def damage(folder):
        stored = load_file(folder / WEIGHTS)
        change(stored)
        save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})

    return damage


def not_a_number(stored):
    stored["model.norm.weight"][3] = np.nan


def whole_numbers(stored):
    stored["model.norm.weight"] = stored["model.norm.weight"].astype(np.int32)


def eight_bits(stored):
    stored["model.norm.weight"] = stored["model.norm.weight"].astype(ml_dtypes.float8_e4m3fn)


def without_norm(stored):
    del stored["model.norm.weight"]


def shorter_norm(stored):
    stored["model.norm.weight"] = stored["model.norm.weight"][:-1]


def fewer_words(stored):
    stored["model.embed_tokens.weight"] = stored["model.embed_tokens.weight"][:300]


def fewer_words_everywhere(folder):
    tensors(fewer_words)(folder)
    changed(CONFIG, vocab_size=300)(folder)


class _Command:
    def __reduce__(self):
        return os.system, ("touch PWNED",)


DAMAGES = {
    "weights cut in half": (cut(WEIGHTS), rf"{WEIGHTS} is no complete safetensors file"),
    "weights cut in their header": (cut(WEIGHTS, 0.001), rf"{WEIGHTS} is no complete safetensors file"),
    "weights empty": (written(WEIGHTS, b""), rf"{WEIGHTS} is no complete safetensors file"),
    "a header of 2^40 bytes": (written(WEIGHTS, struct.pack("<Q", 2**40) + b"{}"), WEIGHTS),
    "a header that is a list": (written(WEIGHTS, struct.pack("<Q", 2) + b"[]"), WEIGHTS),
    "a pickle": (written(WEIGHTS, pickle.dumps(_Command())), rf"{WEIGHTS} is no complete safetensors file"),
    "a page of the web": (written(WEIGHTS, b"<!doctype html><html>Not found</html>"), WEIGHTS),
    "a pointer of Git LFS": (
        written(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n"),
        WEIGHTS,
    ),
    "no weights": (missing(WEIGHTS), "has neither"),
    "a folder of weights": (folder_in_place_of(WEIGHTS), rf"{WEIGHTS} is a folder"),
    "weights that are a link to nowhere": (link_to_nowhere(WEIGHTS), WEIGHTS),
    "NaN": (tensors(not_a_number), r"model\.norm\.weight.* is not finite"),
    "whole numbers": (tensors(whole_numbers), r"model\.norm\.weight.* stored as I32"),
    "eight bits": (tensors(eight_bits), r"model\.norm\.weight.* stored as F8"),
    "a missing tensor": (tensors(without_norm), r"lacks the tensor 'model\.norm\.weight'"),
    "a shorter tensor": (tensors(shorter_norm), r"The tensor 'model\.norm\.weight' .* is \(31,\)"),
    "an index that is a list": (written(INDEX, [1]), INDEX),
    "an index with a list": (written(INDEX, {"weight_map": [1]}), INDEX),
    "an index of numbers": (written(INDEX, {"weight_map": {"a": 1}}), INDEX),
    "an empty index": (written(INDEX, b""), INDEX),
    "an index without files": (index_alone({}), "lacks the tensor"),
    "an index with half a character": (index_alone({"a": "\ud800"}), r"names the file '\\ud800', but"),
    "an index with a name that is too long": (index_alone({"a": "a" * 300}), "is not a file, but .* names it"),
    "an index of bytes": (written(INDEX, b"\xff\xfe"), INDEX),
    "an index that is a folder": (folder_in_place_of(INDEX), INDEX),
    "an index that leads out": (
        written(INDEX, {"weight_map": {"a": "../../../../../../etc/passwd"}}),
        r"names the file '\.\./.*passwd', .* must lie in this folder",
    ),
    "an index of an absolute path": (written(INDEX, {"weight_map": {"a": "/etc/passwd"}}), "must lie in this folder"),
    "a config that is a list": (written(CONFIG, []), rf"{CONFIG} .*object"),
    "a config that is a number": (written(CONFIG, 3), CONFIG),
    "a config cut in half": (cut(CONFIG), rf"{CONFIG} is not JSON"),
    "a config of bytes": (written(CONFIG, b"\xff\xfe\x00"), CONFIG),
    "an empty config": (written(CONFIG, b""), CONFIG),
    "a config that is a folder": (folder_in_place_of(CONFIG), CONFIG),
    "a config that is a link to nowhere": (link_to_nowhere(CONFIG), CONFIG),
    "no config": (missing(CONFIG), CONFIG),
    "no hidden size": (changed(CONFIG, hidden_size=None), CONFIG),
    "a hidden size of text": (changed(CONFIG, hidden_size="many"), CONFIG),
    "a negative number of layers": (changed(CONFIG, num_hidden_layers=-1), CONFIG),
    "no heads": (changed(CONFIG, num_attention_heads=0), CONFIG),
    "a huge number of layers": (changed(CONFIG, num_hidden_layers=10**9, layer_types=None), "256 at most"),
    "a text part that is a list": (changed(CONFIG, model_type="gemma3", text_config=[1]), CONFIG),
    "a huge hidden size": (changed(CONFIG, hidden_size=2**40), "the weights of the policy take"),
    "a rope of text": (changed(CONFIG, rope_parameters="x"), CONFIG),
    "an infinite rope": (changed(CONFIG, rope_parameters={"rope_type": "default", "rope_theta": 1e400}), CONFIG),
    "no positions": (changed(CONFIG, max_position_embeddings=None), CONFIG),
    "a model type that is a list": (changed(CONFIG, model_type=["qwen2"]), CONFIG),
    "tokens that end that are text": (changed(GENERATION, eos_token_id="x"), GENERATION),
    "an end that is no token": (changed(GENERATION, eos_token_id=10**9), "token 1000000000"),
    "a negative end": (changed(GENERATION, eos_token_id=-5), GENERATION),
    "ends in ends": (changed(GENERATION, eos_token_id=[[1], [2]]), GENERATION),
    "a generation config that is 3": (written(GENERATION, 3), GENERATION),
    "a generation config that is empty": (written(GENERATION, b""), GENERATION),
    "a generation config of bytes": (written(GENERATION, b"\xff\xfe"), GENERATION),
    "a generation config that is a folder": (folder_in_place_of(GENERATION), GENERATION),
    "no tokenizer": (missing(TOKENIZER, SETTINGS), "tokenizer"),
    "a tokenizer cut in half": (cut(TOKENIZER), "tokenizer"),
    "an empty tokenizer": (written(TOKENIZER, b""), "tokenizer"),
    "a tokenizer that is a list": (written(TOKENIZER, []), "tokenizer"),
    "a tokenizer that is an empty object": (written(TOKENIZER, {}), "tokenizer"),
    "a tokenizer that is a folder": (folder_in_place_of(TOKENIZER), "tokenizer"),
    "a tokenizer that is a link to nowhere": (link_to_nowhere(TOKENIZER), "tokenizer"),
    "a tokenizer without words": (changed(TOKENIZER, model={"type": "BPE", "vocab": {}, "merges": []}), "tokenizer"),
    "a longest text of letters": (changed(SETTINGS, model_max_length="x"), "tokenizer files"),
    "a longest text that is a list": (changed(SETTINGS, model_max_length=[1]), "tokenizer files"),
    "settings of a tokenizer that are 3": (written(SETTINGS, 3), "tokenizer"),
    "settings of a tokenizer that are empty": (written(SETTINGS, b""), "tokenizer"),
    "settings of a tokenizer that are bytes": (written(SETTINGS, b"\xff\xfe"), "tokenizer"),
    "a template that is a number": (template_in_settings(3), "template"),
    "a template that is a list": (template_in_settings([1]), "tokenizer files"),
    "a template with an error": (written(TEMPLATE, b"{% for %}"), "template"),
    "a template that divides by nothing": (written(TEMPLATE, b"{{ 1 / 0 }}"), "template"),
    "a template that escapes": (
        written(TEMPLATE, b"{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        "template",
    ),
    "a template that never ends": (
        written(TEMPLATE, b"{% for a in range(10**9) %}{% endfor %}"),
        "template",
    ),
    "a template file of bytes": (written(TEMPLATE, b"\xff\xfe{{"), "tokenizer files"),
    "a template file that is a folder": (folder_in_place_of(TEMPLATE), "template"),
    "more words than the model has": (fewer_words_everywhere, r"has a token 511, but the model has only 300"),
}


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "model", hidden_size=32, num_layers=1)


def read(folder):
    """Reads all of a folder that a training run reads."""
    flags = LanguageModelFlags(model_dir=str(folder))
    model = flags.read_model()
    flags.in_words(HypospaceBoolean("basic", 1))
    start, _ = model.load(make_mesh("data:-1"))
    return start()


def test_a_sound_folder_is_read(sound):
    assert read(sound)


HARMLESS = {
    "an unknown kind of tokenizer": changed(SETTINGS, tokenizer_class="Nonsense"),
    "a tokenizer with its own code": changed(
        SETTINGS, auto_map={"AutoTokenizer": ["evil.T", "evil.T"]}, tokenizer_class="T"
    ),
    "a file that nobody reads": folder_in_place_of("README.md"),
    "files of weights that are links": lambda folder: linked(folder, WEIGHTS),
}


def linked(folder, name):
    """As in the cache of huggingface_hub."""
    (folder / name).rename(folder.parent / "blob")
    (folder / name).symlink_to(Path("..") / "blob")


@pytest.mark.parametrize("change", HARMLESS)
def test_what_does_no_harm_is_read(change, sound, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(sound, folder)
    HARMLESS[change](folder)
    assert read(folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_damage_is_said(damage, sound, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(sound, folder)
    harm, message = DAMAGES[damage]
    harm(folder)
    with pytest.raises(ValueError, match=message) as caught:
        read(folder)
    said = str(caught.value)
    assert str(folder) in said or "take" in message
    assert "\n" not in said
    assert len(said) < 600
    assert not list(Path().glob("PWNED"))
