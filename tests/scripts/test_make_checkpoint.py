import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters
from scripts.make_checkpoint import FAMILIES, main, make_checkpoint
from tests.tiers import slow_after


@pytest.fixture(scope="module", params=slow_after(1, list(FAMILIES)))
def checkpoint(request, tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("made") / "model", request.param, hidden_size=32)


def test_it_is_a_checkpoint_that_loads(checkpoint):
    policy = read_policy(checkpoint)
    assert (policy.vocabulary_size, policy.hidden_size, policy.num_layers, policy.head_width) == (512, 32, 2, 8)
    parameters = load_parameters(checkpoint, policy)
    jax.tree.map(np.testing.assert_array_equal, parameters, policy.init(jax.random.key(0)))
    generation = json.loads((checkpoint / "generation_config.json").read_text())
    assert generation["eos_token_id"] == json.loads((checkpoint / "config.json").read_text())["eos_token_id"]


def test_its_tokenizer_was_trained_on_the_tasks(checkpoint):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    assert len(tokenizer) == 512
    text = HypospaceBoolean().prompt_text(7) + "\nExpression: (x OR y) AND x; é, 汉 and 1234"
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens) == text
    assert len(tokens) < 0.6 * len(text)
    # transformers has opinions about the tokenizers of some families; they are those of the file.
    assert tokens == PreTrainedTokenizerFast(tokenizer_file=str(checkpoint / "tokenizer.json"))(text)["input_ids"]


def test_its_chat_template_marks_turns(checkpoint):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    messages = [{"role": "user", "content": "2 + 2"}]
    tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert tokenizer.decode(tokens) == "<|im_start|>user\n2 + 2<|im_end|>\n<|im_start|>assistant\n"
    assert tokens.count(tokenizer.eos_token_id) == 1
    assert tokenizer.eos_token_id != tokenizer.pad_token_id


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "mamba"}, "family is 'mamba', but must be one of llama, qwen2, qwen3, gemma3"),
        ({"seed": -1}, "seed is -1, it must lie between 0 and"),
        ({"vocabulary_size": 10**6}, "vocabulary_size is 1000000, but the text of the tasks gives only"),
    ],
)
def test_bad_settings(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        make_checkpoint(tmp_path / "model", **settings)
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch):
    command = ["scripts/make_checkpoint.py", "--family=gemma3", f"--out={tmp_path / 'model'}"]
    line = [sys.executable, *command, "--dtype=bfloat16", "--num_layers=3"]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    assert "config.json, generation_config.json, model.safetensors, tokenizer.json" in done.stdout
    assert read_policy(tmp_path / "model").num_layers == 3
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as again:
        main()
    assert again.value.code == f"error: {tmp_path / 'model'} exists already: choose a new folder for the export."
