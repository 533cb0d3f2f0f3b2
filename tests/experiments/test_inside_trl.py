"""What TRL gets is the policy and the task of our own trainer; and when both count as agreeing."""

import jax
import numpy as np
import pytest

from experiments import inside_trl
from experiments.inside_trl import GRPO, IPS, OURS, TRL
from ipsrl.records.tidy import Records

SMOKE = inside_trl.PRESETS["smoke"]


def records(ours, theirs):
    rows = [
        {"trainer": trainer, "objective": objective, "seed": seed, "step": 100, "recovery": value}
        for trainer, ends in ((OURS, ours), (TRL, theirs))
        for objective, values in zip((GRPO, IPS), ends, strict=True)
        for seed, value in enumerate(values)
    ]
    return Records(rows, ("trainer", "objective"))


@pytest.mark.parametrize(
    ("theirs", "agree"),
    [
        (((0.20, 0.22), (0.48, 0.50)), True),
        (((0.20, 0.22), (0.30, 0.31)), False),
        (((0.10, 0.20), (0.47, 0.49)), False),  # one objective is not enough
    ],
)
def test_trainers_agree_where_both_recoveries_do(theirs, agree):
    assert inside_trl.trainers_agree(records(((0.21, 0.22), (0.47, 0.49)), theirs)) is agree


@pytest.mark.slow
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
