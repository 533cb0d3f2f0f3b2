"""Steps of TRL's GRPOTrainer with LoRA adapters of peft on a checkpoint: a contender, like `trl_grpo`."""

from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, GenerationConfig

from benchmarks import workloads
from benchmarks.peers import grpo_task, trl_grpo

BEST = {
    "dtype": "bfloat16",
    "autocast": "none",
    "cache": "dynamic",
    "attention": "eager",
    "compile": "none",
}
# Found on two busy Zen 4 cores, November 2026, in CPU seconds of a step of 4 x 16 answers of 5 tokens, one thread, all
# answers at once: float32 32.4, bfloat16 25.9, with eager attention 24.1. Compiled by the trainer, the first step was
# not done after ten minutes at load 9.


def model(folder: str, settings: dict[str, Any]) -> PeftModel:
    """The checkpoint with adapters, all in the type of the settings, because mixed types are slower."""
    made = AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, settings["dtype"]), attn_implementation=settings["attention"]
    )
    # The checkpoint's own token that ends an answer.
    made.generation_config = GenerationConfig()
    if settings["compile"] == "layers":
        for layer in made.model.layers:
            layer.compile()
    lora = LoraConfig(
        r=workloads.LORA_RANK,
        lora_alpha=workloads.LORA_ALPHA,
        target_modules=list(workloads.LORA_TARGETS),
        task_type="CAUSAL_LM",
    )
    return get_peft_model(made, lora, autocast_adapter_dtype=False)


def main() -> None:
    flags = grpo_task.parser(__doc__, trl_grpo.CHOICES, trl_grpo.NUMBERS)
    flags.add_argument("--batch", type=workloads.Batch.read, required=True)
    flags.add_argument("--model_dir", required=True)
    given = {name: value for name, value in vars(flags.parse_args()).items() if value is not None}
    batch, folder = given.pop("batch"), given.pop("model_dir")
    settings = BEST | {"micro_batches": batch.prompts} | given
    trl_grpo.compete(model(folder, settings), batch, settings)


if __name__ == "__main__":
    main()
