"""Steps of TRL's GRPOTrainer: a contender, run by the Python of TRL's own environment.

The trainer runs as always, `trainer.train()`, and is paused at the end of each step until the next is requested.
Optional work is off: clipping of gradients, saving, logging, evaluation.
"""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks import contender, workloads
from benchmarks.peers import grpo_task
from benchmarks.peers.gate import Gate
from benchmarks.workloads import Batch, Workload

CHOICES = {
    # Of the parameters, and so of sampling, of the update and of Adam.
    "dtype": ("float32", "bfloat16"),
    # Whether the update computes in bfloat16 with float32 parameters; sampling does not.
    "autocast": ("none", "bfloat16"),
    "cache": ("dynamic", "static"),
    "attention": ("sdpa", "eager"),
    # Nothing, the blocks of the model (for sampling as well), or what the trainer compiles: the model in the update.
    "compile": ("none", "layers", "trainer"),
}
NUMBERS = ("micro_batches", "threads")

FASTEST = {
    "dtype": "bfloat16",
    "autocast": "none",
    "cache": "dynamic",
    "attention": "eager",
    "compile": "trainer",
    "micro_batches": 1,
}
# Found with `--workload=M --attention=eager` and so on, on two Zen 4 cores, November 2026: the least CPU seconds of
# three or four steps, because other work on the machine changes CPU time less than wall time. M: float32 11.3, with 4
# micro-batches 10.1, with autocast 21.7; bfloat16 with autocast 7.8, with a static cache 8.6, with eager attention 5.8;
# bfloat16 with 4 micro-batches 6.8, with eager attention 6.4, with both 5.75, and compiled by the trainer 5.05. S, in
# bfloat16: eager 1.4, with 4 micro-batches 1.14, compiled 1.03, compiled and eager 0.80. Compiled blocks and one thread
# were no faster on S in float32. L was not searched.
BEST = {"S": FASTEST, "M": FASTEST | {"micro_batches": 4}, "L": FASTEST | {"micro_batches": 4}}


class AtGate(TrainerCallback):
    """Pauses the trainer at the end of each step."""

    def __init__(self, gate: Gate, report: Callable[[], dict[str, Any]]):
        self._gate, self._report = gate, report

    def on_train_begin(self, *_, **__) -> None:
        self._gate.wait()

    def on_step_end(self, *_, **__) -> None:
        self._gate.wait(self._report())


def tokenizer(size: int) -> PreTrainedTokenizerFast:
    """Numbers, and two words outside the model's vocabulary: no answer can end early, and nothing is padded."""
    vocabulary = {str(token): token for token in range(size)} | {"<end>": size, "<pad>": size + 1}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<pad>")


def model(workload: Workload, settings: dict[str, Any]) -> Qwen2ForCausalLM:
    """Qwen2 in the shape of the workload with random weights."""
    config = Qwen2Config(
        vocab_size=workload.vocabulary_size,
        hidden_size=workload.hidden_size,
        intermediate_size=workload.intermediate_size,
        num_hidden_layers=workload.num_layers,
        num_attention_heads=workload.num_heads,
        num_key_value_heads=workload.num_key_value_heads,
        max_position_embeddings=workload.prompt_length + workload.completion_length,
        tie_word_embeddings=True,
        attn_implementation=settings["attention"],
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(0)
    made = Qwen2ForCausalLM(config).to(getattr(torch, settings["dtype"]))
    if settings["compile"] == "layers":
        for layer in made.model.layers:
            layer.compile()
    return made


def arguments(batch: Batch, settings: dict[str, Any], folder: str) -> GRPOConfig:
    """One generation and one update in each step, and nothing else."""
    return GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=batch.prompts * batch.group_size // settings["micro_batches"],
        gradient_accumulation_steps=settings["micro_batches"],
        num_generations=batch.group_size,
        num_iterations=1,
        max_completion_length=batch.completion_length,
        temperature=workloads.TEMPERATURE,
        top_p=1.0,
        top_k=0,
        cache_implementation=None if settings["cache"] == "dynamic" else settings["cache"],
        loss_type="grpo",
        beta=0.0,
        learning_rate=batch.learning_rate,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        weight_decay=0.0,
        max_grad_norm=0.0,
        bf16=settings["autocast"] == "bfloat16",
        gradient_checkpointing=False,
        torch_compile=settings["compile"] == "trainer",
        max_steps=grpo_task.STEPS,
        save_strategy="no",
        logging_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )


def compete(policy: PreTrainedModel, batch: Batch, settings: dict[str, Any]) -> None:
    """Serves steps of a trainer of the policy."""
    if "threads" in settings:
        torch.set_num_threads(settings["threads"])
    rewards, gate, sampling = grpo_task.Rewards(batch), Gate(), {}
    description = grpo_task.description(
        "TRL",
        ("trl", "transformers", "torch"),
        batch,
        sum(parameter.numel() for parameter in policy.parameters()),
        settings | {"threads": torch.get_num_threads()},
    )
    generate = policy.generate

    def timed_generate(*given, **named):
        tokens, spent = contender.timed(lambda: generate(*given, **named))
        sampling.update({"sampling": spent["seconds"], "sampling_cpu": spent["cpu_seconds"]})
        return tokens

    def even(completion_ids: Sequence[Sequence[int]], **_) -> list[float]:
        return rewards(completion_ids)

    policy.generate = timed_generate
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            policy,
            even,
            arguments(batch, settings, folder),
            Dataset.from_dict({"prompt": grpo_task.texts(batch)}),
            processing_class=tokenizer(batch.vocabulary_size),
            callbacks=[AtGate(gate, lambda: rewards.report | sampling)],
        )
        gate.open(description)
        trainer.train()


def main() -> None:
    workload, settings = grpo_task.settings(__doc__, CHOICES, NUMBERS, BEST)
    compete(model(workload, settings), workload, settings)


if __name__ == "__main__":
    main()
