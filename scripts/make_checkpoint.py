"""Makes a tiny Hugging Face checkpoint: `python scripts/make_checkpoint.py --family=qwen2 --out=DIR`.

Weights are random, but the architecture has all special features of its family, and the byte-level BPE tokenizer is
really trained, on the prompts and answers of the text tasks. It takes seconds, needs neither network nor PyTorch, and
replaces a real checkpoint in tests and in the README.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.make_checkpoint")

import jax
import numpy as np
from absl import logging

from ipsrl.checking.paths import expanded, require_possible
from ipsrl.command.ending import Ending
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from ipsrl.policies import hugging_face
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.transformer import Transformer

PADDING, TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Special features of each family: grouped queries in all, each other feature where a tiny model can show it.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
    },
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True},
    "gemma3": {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "sliding_window": 64,
        "sliding_window_pattern": 2,
    },
}
DTYPES = ("float32", "bfloat16", "float16")


def make_checkpoint(
    out: str | Path,
    family: str = "qwen2",
    *,
    hidden_size: int = 64,
    num_layers: int = 2,
    num_heads: int = 4,
    num_key_value_heads: int = 2,
    vocabulary_size: int = 512,
    max_length: int = 4096,
    dtype: str = "float32",
    seed: int = 0,
    overrides: dict[str, Any] | None = None,
    shard_bytes: int = 5 * 10**9,
) -> Path:
    """Writes the folder `out`, which must not exist, and returns it.

    Args:
      family: "llama", "qwen2", "qwen3" or "gemma3".
      vocabulary_size: tokens of the tokenizer, and rows of the embeddings.
      max_length: maximum number of tokens of a text.
      dtype: of the weights in the file.
      seed: of the weights.
      overrides: keys of `config.json` that replace the family's.
      shard_bytes: maximum size of a file of weights.

    Raises:
      ValueError: `out` cannot be a folder, the family is unknown, the tokenizer cannot have this vocabulary size, the
        sizes do not fit each other or the memory, or the seed is out of range.
    """
    out = expanded(out, "--out")
    require_possible(out)
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed is {seed}, it must lie between 0 and 2^31 - 1")
    if family not in FAMILIES:
        raise ValueError(f"family is {family!r}, but must be one of {', '.join(FAMILIES)}.")
    Transformer(vocabulary_size, hidden_size, num_layers, num_heads, num_key_value_heads).require_memory()
    tokenizer = train_tokenizer(vocabulary_size)
    from transformers import AutoConfig, GenerationConfig

    ids = {
        "bos_token_id": None,
        "eos_token_id": tokenizer.convert_tokens_to_ids(END_OF_TURN),
        "pad_token_id": tokenizer.convert_tokens_to_ids(PADDING),
    }
    sizes = {
        "vocab_size": vocabulary_size,
        "hidden_size": hidden_size,
        "intermediate_size": 3 * hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "num_key_value_heads": num_key_value_heads,
        "head_dim": hidden_size // num_heads,
        "max_position_embeddings": max_length,
    }
    config = AutoConfig.for_model(
        **FAMILIES[family] | ids | sizes | {"dtype": dtype} | (overrides or {}),
    )
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        GenerationConfig(**{name: value for name, value in ids.items() if value is not None}).save_pretrained(folder)
        policy = read_policy(folder)
        parameters = policy.init(jax.random.key(seed))
        hugging_face.save(out, policy, parameters, folder, dtype=dtype, shard_bytes=shard_bytes)
    return out


def train_tokenizer(vocabulary_size: int) -> Any:
    """A byte-level BPE tokenizer of exactly `vocabulary_size` tokens, with a chat template.

    Raises:
      ValueError: it is below the 256 bytes and 3 marks, or more than the text of the tasks provides.
    """
    marks = [PADDING, TURN, END_OF_TURN]
    smallest = 256 + len(marks)
    if vocabulary_size < smallest:
        raise ValueError(f"vocabulary_size is {vocabulary_size}, but the bytes and marks alone are {smallest}.")
    # An import that is long with PyTorch, and says that it is missing without: only after the checks.
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

    tokenizer = Tokenizer(models.BPE())
    # For Qwen2, transformers splits text as Qwen does, whatever the file says; for other families it follows the file.
    qwen = Qwen2Tokenizer().backend_tokenizer
    tokenizer.normalizer, tokenizer.pre_tokenizer = qwen.normalizer, qwen.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=marks,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    if tokenizer.get_vocab_size() != vocabulary_size:
        raise ValueError(
            f"vocabulary_size is {vocabulary_size}, but the text of the tasks gives only "
            f"{tokenizer.get_vocab_size()} tokens."
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PADDING,
        eos_token=END_OF_TURN,
        additional_special_tokens=[TURN],
        chat_template=CHAT_TEMPLATE,
    )


def texts() -> Iterator[str]:
    """Training text of the tokenizer: prompts and answers of the three HypoSpace tasks, and sums."""
    for task in (HypospaceBoolean(), HypospaceCausal(), HypospaceVoxels()):
        for prompt in range(min(task.num_prompts, 50)):
            yield task.prompt_text(prompt)
        for hypothesis in range(min(task.num_hypotheses, 500)):
            yield task.answer_text(hypothesis)
    generator = np.random.default_rng(0)
    for first, second, third in generator.integers(1, 100, (1000, 3)):
        yield f"Numbers: {first}, {second}, {third}. Target: {(first + second) * third}."
        yield f"({first} + {second}) * {third} = {(first + second) * third}"
        yield f"{first} - {second} / {third} = {first - second / third:.2f}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", required=True, help="the new folder")
    made.add_argument("--family", choices=FAMILIES, default="qwen2", help="whose architecture; qwen2 by default")
    made.add_argument("--hidden_size", type=int, default=64, help="width of the residual stream; 64 by default")
    made.add_argument("--num_layers", type=int, default=2, help="number of blocks; 2 by default")
    made.add_argument("--num_heads", type=int, default=4, help="number of query heads; 4 by default")
    made.add_argument("--num_key_value_heads", type=int, default=2, help="number of key-value heads; 2 by default")
    made.add_argument("--vocabulary_size", type=int, default=512, help="tokens of the tokenizer; 512 by default")
    made.add_argument("--dtype", choices=DTYPES, default="float32", help="of the weights in the file")
    made.add_argument("--seed", type=int, default=0, help="of the weights; 0 by default")
    return made


def main() -> None:
    arguments = parser().parse_args()
    # JAX would log the accelerators that it has not found.
    logging.set_verbosity(logging.WARNING)
    with Ending():
        out = make_checkpoint(**vars(arguments))
        print(f"{out}: {', '.join(sorted(file.name for file in out.iterdir()))}")


if __name__ == "__main__":
    main()
