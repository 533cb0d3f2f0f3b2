"""A damaged folder of a language model ends in one sentence that names the file, whatever the damage."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.study.language_model import LanguageModelFlags
from scripts.make_checkpoint import make_checkpoint
from tests.hostile.damage import cut, folder_in_place_of, holds, in_place_of, missing

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
CONFIG, TOKENIZER, GENERATION = "config.json", "tokenizer.json", "generation_config.json"
SETTINGS, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
NORM, WORDS = "model.norm.weight", "model.embed_tokens.weight"


def changed(name, **values):
    """The damage that keys of a JSON object have other values."""

    def damage(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return damage


def together(*damages):
    return lambda folder: [damage(folder) for damage in damages]


def index_alone(weight_map):
    """The damage of an index without the weights."""
    return together(missing(WEIGHTS), holds(INDEX, {"weight_map": weight_map}))


def link_to_nowhere(name):
    return in_place_of(name, lambda path: path.symlink_to("nowhere"))


def template_in_settings(content):
    return together(missing(TEMPLATE), changed(SETTINGS, chat_template=content))


def tensor(name, change):
    """The damage that a tensor is another one, or gone if `change` gives None."""

    def damage(folder):
        stored = load_file(folder / WEIGHTS)
        stored[name] = change(stored[name])
        kept = {name: values for name, values in stored.items() if values is not None}
        save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})

    return damage


DAMAGES = {
    "weights cut in half": (cut(WEIGHTS), rf"{WEIGHTS} is no complete safetensors file"),
    "a header of 2^40 bytes": (holds(WEIGHTS, struct.pack("<Q", 2**40) + b"{}"), WEIGHTS),
    "a folder of weights": (folder_in_place_of(WEIGHTS), rf"{WEIGHTS} is a folder"),
    "weights that are a link to nowhere": (link_to_nowhere(WEIGHTS), WEIGHTS),
    "NaN": (tensor(NORM, lambda values: values * np.nan), r"model\.norm\.weight.* is not finite"),
    "whole numbers": (tensor(NORM, lambda values: values.astype(np.int32)), r"model\.norm\.weight.* stored as I32"),
    "a missing tensor": (tensor(NORM, lambda values: None), r"lacks the tensor 'model\.norm\.weight'"),
    "a shorter tensor": (tensor(NORM, lambda values: values[:-1]), r"The tensor 'model\.norm\.weight' .* is \(31,\)"),
    "an index with a list": (holds(INDEX, {"weight_map": [1]}), INDEX),
    "an index without files": (index_alone({}), "lacks the tensor"),
    "an index with half a character": (index_alone({"a": "\ud800"}), r"names the file '\\ud800', but"),
    "an index with a name that is too long": (index_alone({"a": "a" * 300}), "is not a file, but .* names it"),
    "an index that is a folder": (folder_in_place_of(INDEX), INDEX),
    "an index that leads out": (
        holds(INDEX, {"weight_map": {"a": "../../../../../../etc/passwd"}}),
        r"names the file '\.\./.*passwd', .* must lie in this folder",
    ),
    "a config that is a list": (holds(CONFIG, []), rf"{CONFIG} .*object"),
    "a config cut in half": (cut(CONFIG), rf"{CONFIG} is not JSON"),
    "a config that is a folder": (folder_in_place_of(CONFIG), CONFIG),
    "no hidden size": (changed(CONFIG, hidden_size=None), CONFIG),
    "a hidden size of text": (changed(CONFIG, hidden_size="many"), CONFIG),
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
    "a generation config that is 3": (holds(GENERATION, 3), GENERATION),
    "no tokenizer": (missing(TOKENIZER, SETTINGS), "tokenizer"),
    "a tokenizer cut in half": (cut(TOKENIZER), "tokenizer"),
    "a tokenizer that is a folder": (folder_in_place_of(TOKENIZER), "tokenizer"),
    "a tokenizer without words": (changed(TOKENIZER, model={"type": "BPE", "vocab": {}, "merges": []}), "tokenizer"),
    "settings of a tokenizer that are 3": (holds(SETTINGS, 3), "tokenizer"),
    "a template that is a number": (template_in_settings(3), "template"),
    "a template with an error": (holds(TEMPLATE, b"{% for %}"), "template"),
    "a template that never ends": (holds(TEMPLATE, b"{% for a in range(10**9) %}{% endfor %}"), "template"),
    "a template file of bytes": (holds(TEMPLATE, b"\xff\xfe{{"), "tokenizer files"),
    "more words than the model has": (
        together(tensor(WORDS, lambda values: values[:300]), changed(CONFIG, vocab_size=300)),
        r"has a token 511, but the model has only 300",
    ),
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


HARMLESS = {
    "nothing": lambda folder: None,
    "an unknown kind of tokenizer": changed(SETTINGS, tokenizer_class="Nonsense"),
    "a file that nobody reads": folder_in_place_of("README.md"),
    "files of weights that are links": lambda folder: linked(folder, WEIGHTS),
}


def linked(folder, name):
    """Turns a file into a link to a blob, as in the cache of huggingface_hub."""
    (folder / name).rename(folder.parent / "blob")
    (folder / name).symlink_to(Path("..") / "blob")


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "model")


@pytest.mark.parametrize("change", HARMLESS)
def test_what_does_no_harm_is_read(change, folder):
    HARMLESS[change](folder)
    assert read(folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_damage_is_said(damage, folder):
    harm, message = DAMAGES[damage]
    harm(folder)
    with pytest.raises(ValueError, match=message) as caught:
        read(folder)
    said = str(caught.value)
    assert str(folder) in said or "take" in message
    assert "\n" not in said
    assert len(said) < 600
