"""Files of a small language model that are damaged: loading ends in a sentence, or gives the same weights."""

import shutil

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.policies.gguf.conversion import import_gguf
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters
from tests.environments.language.tokenizers_for_tests import save_tokenizer
from tests.hostile.damage import OTHER_JSON, copied, damages
from tests.hostile.ended import value_or_sentence
from tests.policies.gguf.gguf_files import write_gguf, write_model
from tests.policies.hugging_face.decoder_families import write_checkpoint
from tests.tiers import fuzzed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TASK = HypospaceBoolean()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder, its policy and its weights."""
    folder, _, _ = write_checkpoint(tmp_path_factory.mktemp("models"), "qwen2")
    save_tokenizer(folder, [TASK.prompt_text(0)])
    policy = read_policy(folder)
    return folder, policy, load_parameters(folder, policy)


def loaded(folder):
    policy = read_policy(folder)
    return policy, load_parameters(folder, policy)


@fuzzed(40, shrinks=False)
@given(damage=damages(OTHER_JSON))
def test_weights(damage, model, tmp_path):
    original, policy, parameters = model
    folder = tmp_path / "model"
    touched = copied(original, folder, damage)
    found = value_or_sentence(loaded, folder)
    # A file of weights has no checksum: another byte in it is another weight, and another key another model.
    if found is not None and not any(path and path.name in ("model.safetensors", "config.json") for path in touched):
        assert found[0] == policy
        jax.tree.map(np.testing.assert_array_equal, found[1], parameters)


@fuzzed(60, shrinks=False)
@given(damage=damages(OTHER_JSON))
def test_tokenizers(damage, model, tmp_path):
    folder = tmp_path / "model"
    copied(model[0], folder, damage)
    value_or_sentence(LanguageTask, TASK, str(folder), 100_000)


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gguf")
    return write_gguf(folder / "model.gguf", write_model(folder, "qwen2"))


@fuzzed(60, shrinks=False)
@given(damage=damages(), of_metadata=st.booleans())
def test_gguf_files(damage, of_metadata, gguf_file, tmp_path):
    folder = tmp_path / "files"
    shutil.rmtree(tmp_path / "made", ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # Most of a file is weights.
    content, weights = gguf_file.read_bytes(), gguf_file.stat().st_size * 9 // 10 if of_metadata else 0
    path = folder / "model.gguf"
    path.write_bytes(content[: len(content) - weights])
    for each in damage:
        each.happen(folder)
    if path.is_file() and path.stat().st_size:
        path.write_bytes(path.read_bytes() + content[len(content) - weights :])
    value_or_sentence(import_gguf, path, tmp_path / "made")
