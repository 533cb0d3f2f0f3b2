"""The workloads of a GRPO step; this module needs only Python and NumPy, so that peers can read it as well.

All have the shape of Qwen2: biases on queries, keys and values, tied embeddings. A step samples a group of answers of
fixed length to each prompt, rewards them, and makes one Adam update without a KL penalty.
"""

import dataclasses
import json
from collections.abc import Sequence

import numpy as np

TEMPERATURE = 1.0
LORA_RANK, LORA_ALPHA, LORA_TARGETS = 16, 32, ("q_proj", "k_proj", "v_proj", "o_proj")
"""The adapters of language models."""
PROMPT_TABLE = 256
"""Different prompts."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """The batch that a step samples.

    Attributes:
      vocabulary_size: of the model.
      prompts, group_size: P and G of a step.
      prompt_length, completion_length: tokens.
      learning_rate: of Adam.
    """

    vocabulary_size: int
    prompts: int
    group_size: int
    prompt_length: int
    completion_length: int
    learning_rate: float = 1e-4

    @classmethod
    def read(cls, text: str) -> "Batch":
        """The batch with the given fields, in JSON."""
        return cls(**json.loads(text))

    @property
    def tokens(self) -> int:
        """Number of tokens sampled in a step."""
        return self.prompts * self.group_size * self.completion_length

    def prompt_tokens(self) -> np.ndarray:
        """`[PROMPT_TABLE, prompt_length]`, the same for all contenders."""
        return np.random.default_rng(0).integers(0, self.vocabulary_size, (PROMPT_TABLE, self.prompt_length), np.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload(Batch):
    """A model and a batch.

    Attributes:
      hidden_size, num_layers, num_heads, num_key_value_heads, intermediate_size: of the model.
    """

    hidden_size: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    intermediate_size: int

    @property
    def matrix_parameters(self) -> int:
        """Parameters in the matrices of the blocks, and in the unembedding."""
        attention = 2 * self.hidden_size * (self.hidden_size + self.key_value_size)
        mlp = 3 * self.hidden_size * self.intermediate_size
        return self.num_layers * (attention + mlp) + self.vocabulary_size * self.hidden_size

    @property
    def key_value_size(self) -> int:
        """Channels of a token's keys, and of its values."""
        return self.hidden_size // self.num_heads * self.num_key_value_heads

    @property
    def parameters(self) -> int:
        """Number of all parameters: the matrices, three biases and two norms in each block, and the last norm."""
        vectors = 3 * self.hidden_size + 2 * self.key_value_size
        return self.matrix_parameters + self.num_layers * vectors + self.hidden_size

    def forward_operations(self, shared_prompt: bool) -> int:
        """Multiplications and additions of one pass over all prompts and completions, in matrices and attention.

        Args:
          shared_prompt: whether a prompt is read once for its group, or once for each completion.
        """
        copies = 1 if shared_prompt else self.group_size
        sequences = self.prompts * self.group_size
        read, written = self.prompts * copies * self.prompt_length, sequences * self.completion_length
        blocks = self.matrix_parameters - self.vocabulary_size * self.hidden_size
        matrices = (read + written) * blocks + written * self.vocabulary_size * self.hidden_size
        # Each token attends to all tokens before it, with two products: the logits and the mean of the values.
        in_prompt = self.prompts * copies * self.prompt_length**2 // 2
        of_completion = sequences * self.completion_length * (self.prompt_length + self.completion_length // 2)
        attention = 2 * self.num_layers * self.hidden_size * (in_prompt + of_completion)
        return 2 * (matrices + attention)

    def step_operations(self) -> int:
        """The necessary operations of a step: one pass to sample, one for the loss, and twice that for its gradient."""
        return 4 * self.forward_operations(shared_prompt=True)


_SIZES = "vocabulary_size", "hidden_size", "num_layers", "num_heads", "num_key_value_heads", "intermediate_size"
S_MODEL = dict(zip(_SIZES, (64, 128, 4, 4, 4, 512), strict=True))
M_MODEL = dict(zip(_SIZES, (512, 320, 8, 8, 8, 1024), strict=True))
SMOLLM2_135M = dict(zip(_SIZES, (49152, 576, 30, 9, 3, 1536), strict=True))
QWEN_500M = dict(zip(_SIZES, (151936, 896, 24, 14, 2, 4864), strict=True))
"""The shapes of real models; SmolLM2 itself has no biases."""

COMPARED = {
    "S": Workload(**S_MODEL, prompts=16, group_size=8, prompt_length=16, completion_length=32),
    "M": Workload(**M_MODEL, prompts=16, group_size=8, prompt_length=16, completion_length=32),
    "L": Workload(**M_MODEL, prompts=8, group_size=16, prompt_length=128, completion_length=64),
}
"""Workloads for which the best settings of other trainers are known."""

WORKLOADS = COMPARED | {
    # For accelerators.
    "135M": Workload(**SMOLLM2_135M, prompts=8, group_size=16, prompt_length=40, completion_length=64),
    "500M": Workload(**QWEN_500M, prompts=8, group_size=16, prompt_length=40, completion_length=64),
}


def reward(completion: Sequence[int]) -> float:
    """The share of even tokens."""
    return float(np.mean(np.asarray(completion) % 2 == 0))
