"""An objective in TRL's trainer: the same steps as TRL where TRL has it, and what only we have."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason='pip install -e ".[trl]"')

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from ipsrl.integrations.outcomes import exact_text
from ipsrl.integrations.trl import STATE_FILE, IPSRLTrainer
from tests.integrations import small_model
from tests.integrations.alike import even, even_and_large, imports_are_no_garbage, made, standardises  # noqa: F401

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    # TRL uses two names that transformers has renamed.
    pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing(_disable|_enable)?` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found:UserWarning"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model.saved(tmp_path_factory.mktemp("model"))


OURS = ("objective", "outcome_of", "right_above", "peft_config")


def trainer(kind, model, folder, rewards=even, **options):
    ours = {name: options.pop(name) for name in OURS if name in options}
    if kind is IPSRLTrainer:
        ours.setdefault("right_above", 0.0)
    config = (RLOOConfig if kind is RLOOTrainer else GRPOConfig)(
        output_dir=str(folder),
        report_to=[],
        bf16=False,
        num_generations=4,
        max_completion_length=6,
        optim="sgd",
        learning_rate=0.05,
        logging_steps=1,
        disable_tqdm=True,
        **{"per_device_train_batch_size": 8, "max_steps": 3, "save_strategy": "no"} | options,
    )
    data = Dataset.from_dict({"prompt": ["1 2", "3", "4 5 6", "7"], "word": list("abcd")})
    return kind(model, rewards, args=config, train_dataset=data, processing_class=small_model.tokenizer(), **ours)


def parameters(made):
    return torch.cat([parameter.detach().flatten().cpu() for parameter in made.model.parameters()])


def trained(made, **options):
    torch.manual_seed(0)
    made.train(**options)
    return parameters(made)


def compare(ours, theirs):
    """Both trainers move, and to the same place."""
    before = parameters(ours)
    after, wanted = trained(ours), trained(theirs)
    moved = float((wanted - before).abs().max())
    assert moved > 1e-4
    torch.testing.assert_close(after, wanted, rtol=0, atol=1e-5 * moved)


BY_ANSWER = {"loss_type": "grpo", "importance_sampling_level": "sequence"}
ALIKE = {
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "dapo(overlong=0)": {"loss_type": "dapo", "epsilon_high": 0.28},
    "gspo": {**BY_ANSWER, "epsilon": 3e-4, "epsilon_high": 4e-4},
    "cispo(cap=1.2)": {"loss_type": "cispo", "epsilon_high": 1.2},
    "sapo": {"loss_type": "sapo"},
    "grpo(kl=0.04)": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False},
}
PARTS = {"per_device_train_batch_size": 4}
SHAPES = {
    "one part": {},
    "two parts": {**PARTS, "gradient_accumulation_steps": 2},
    "two steps a batch": {**PARTS, "gradient_accumulation_steps": 1, "steps_per_generation": 2},
    "two passes": {"num_iterations": 2},
}


def trainings():
    """All shapes for GRPO, the one in which ratios differ from 1 for the others, and parts where tokens are counted."""
    for text in ALIKE:
        # For steps on one batch TRL divides by their mean number of tokens, we by that of each.
        of_tokens = ["one part", "two parts", "two passes"] if text.startswith(("dapo", "cispo")) else ["two passes"]
        yield from ((text, shape) for shape in (SHAPES if text == "grpo" else of_tokens))


@pytest.mark.parametrize(("text", "shape"), list(trainings()))
def test_training_ends_with_the_parameters_of_trl(model, tmp_path, text, shape):
    """Three steps, whole: sampling, rewards, loss, gradient and optimiser."""
    objective = made(text)
    rewards = even_and_large if standardises(objective) else even
    theirs = trainer(GRPOTrainer, model, tmp_path, rewards, **ALIKE[text], **SHAPES[shape])
    ours = trainer(IPSRLTrainer, model, tmp_path, rewards, objective=objective, **SHAPES[shape])
    compare(ours, theirs)


@pytest.mark.parametrize("shape", ["two parts", "two passes"])
def test_rloo_ends_with_the_parameters_of_trls_own_trainer(model, tmp_path, shape):
    theirs = trainer(RLOOTrainer, model, tmp_path, even, beta=0.0, **SHAPES[shape])
    ours = trainer(IPSRLTrainer, model, tmp_path, even, objective="rloo", **SHAPES[shape])
    compare(ours, theirs)


@pytest.mark.parametrize("text", ["grpo(kl=0.04)", "dr_grpo"])
def test_adapters_end_where_those_of_trl_do(model, tmp_path, text):
    """LoRA of PEFT. The reference policy of a divergence is the model without its adapters."""
    kinds = {GRPOTrainer: ALIKE[text], IPSRLTrainer: {"objective": made(text)}}
    theirs, ours = (
        trainer(
            kind,
            model,
            tmp_path,
            even_and_large,
            **options,
            # By default half of the matrices begin at zero, and the others would not move at first.
            peft_config=LoraConfig(r=2, init_lora_weights=False, target_modules="all-linear"),
        )
        for kind, options in kinds.items()
    )
    compare(ours, theirs)


def test_two_processes_end_with_the_parameters_of_trl(model, tmp_path):
    """Weights are those of the groups of both, and so is the divisor, a number of tokens."""
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m"]
    program = ["tests.integrations.two_processes", model, str(tmp_path)]
    subprocess.run([sys.executable, *command, *program], check=True, cwd=ROOT, timeout=600)
    ends = {name: torch.load(tmp_path / f"{name}.pt") for name in ("TRL", "ipsrl")}
    before = torch.cat([p.detach().flatten() for p in AutoModelForCausalLM.from_pretrained(model).parameters()])
    moved = float((ends["TRL"] - before).abs().max())
    assert moved > 1e-4
    torch.testing.assert_close(ends["ipsrl"], ends["TRL"], rtol=0, atol=1e-5 * moved)


def test_outcomes_decide_what_weighs_and_the_log_says_what_is_left(model, tmp_path):
    seen = []

    def parity(prompt, completion, word, **columns):
        seen.append((prompt, word, tuple(columns)))
        return len(completion.split()) % 2

    visitor = trainer(IPSRLTrainer, model, tmp_path, objective="ips_grpo(floor=0.2)", outcome_of=parity)
    trained(visitor)
    assert {prompt: word for prompt, word, _ in seen}.items() <= {"1 2": "a", "3": "b", "4 5 6": "c", "7": "d"}.items()
    logs = visitor.state.log_history[0]
    for name in ("group_effective_outcomes", "degenerate_groups", "pass@1", "pass@4", "pcmd"):
        assert math.isfinite(logs[f"ipsrl/{name}"])
    assert 1 <= logs["ipsrl/group_effective_outcomes"] <= 2
    assert "monitor/degenerate_groups" in logs


@pytest.mark.parametrize("objective", ["ips_grpo(probability=ema)", "trajectory_balance"])
def test_a_resumed_run_goes_on_with_the_state_of_the_objective(model, tmp_path, objective):
    saves = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    options = {"objective": objective, "outcome_of": exact_text, "right_above": 0.5, **saves}
    whole = trained(trainer(IPSRLTrainer, model, tmp_path / "whole", **options))
    checkpoint = tmp_path / "whole" / "checkpoint-1"
    assert (checkpoint / STATE_FILE).exists()
    again = trained(trainer(IPSRLTrainer, model, tmp_path / "again", **options), resume_from_checkpoint=str(checkpoint))
    torch.testing.assert_close(again, whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "ips_grpo"}, "the objective reads outcomes: give outcome_of"),
        ({"objective": "grpo", "beta": 0.1}, r"GRPOConfig sets beta, in whose place the objective stands"),
        (
            {"objective": "grpo(correction=sequence_mask(0.1))", "use_vllm": True},
            "in the place of the sampler's: leave it out",
        ),
        (
            {"objective": "ips_grpo(probability=exact)", "outcome_of": str},
            "needs log_backward, which TRL does not give",
        ),
        ({"objective": "vargrad", "gradient_accumulation_steps": 2}, "couples the answers of a group, and TRL cuts"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_begins(model, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        trainer(IPSRLTrainer, model, tmp_path, **options)


def test_arguments_may_be_given_by_position(model, tmp_path):
    config = GRPOConfig(output_dir=str(tmp_path), bf16=False, num_generations=4)
    data = Dataset.from_dict({"prompt": ["1 2"]})
    visitor = IPSRLTrainer(
        model, even, config, data, processing_class=small_model.tokenizer(), objective="grpo(kl=0.04)"
    )
    assert visitor.args.beta == 1.0
    assert config.beta == 0.0


def test_an_evaluation_may_have_groups_of_one(model, tmp_path):
    """It is measured, not trained on."""
    visitor = trainer(
        IPSRLTrainer, model, tmp_path, objective="grpo", num_generations_eval=1, per_device_eval_batch_size=2
    )
    measured = visitor.evaluate(Dataset.from_dict({"prompt": ["1 2", "3"]}))
    assert 0 <= measured["eval_ipsrl/pass@1"] <= 1


def test_a_reward_that_is_missing_ends_training_with_a_sentence(model, tmp_path):
    visitor = trainer(
        IPSRLTrainer, model, tmp_path, lambda completions, **_: [None] * len(completions), objective="grpo"
    )
    with pytest.raises(ValueError, match="the reward of row 0 is nan"):
        trained(visitor)
