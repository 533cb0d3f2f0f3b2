"""TRL gets the same policy and the same task as our own trainer."""

import jax
import numpy as np
import pytest

from experiments import inside_trl

SMOKE = inside_trl.PRESETS["smoke"]


def test_trl_gets_the_same_policy_and_the_same_prompts(tmp_path):
    torch = pytest.importorskip("torch", reason='pip install -e ".[trl]"')
    from transformers import AutoModelForCausalLM

    ours = inside_trl.grid(SMOKE)
    parameters = ours.policy.init(jax.random.key(0))
    model = AutoModelForCausalLM.from_pretrained(inside_trl.write_model(tmp_path, ours.policy, parameters))
    asked = ours.environment.prompts_with_history([3], [()])
    log_probs, _ = ours.policy.prompt_log_probs(parameters, asked, 1.0)
    with torch.no_grad():
        logits = model(torch.tensor(np.asarray(asked.tokens), dtype=torch.long)).logits
    theirs = logits.log_softmax(dim=-1)[0, :-1].gather(-1, torch.tensor(np.asarray(asked.tokens))[0, 1:, None].long())
    np.testing.assert_allclose(log_probs[0, 1:], theirs[:, 0], atol=1e-5)

    task, tokenizer = ours.environment, inside_trl.tokenizer_of(ours.environment)
    for prompt in range(task.num_prompts):
        tokens = task.prompt_tokens(prompt)
        text = " ".join(task.vocabulary[token] for token in tokens)
        assert tokenizer(text)["input_ids"] == tokens
        assert tokenizer.decode(tokens) == text
