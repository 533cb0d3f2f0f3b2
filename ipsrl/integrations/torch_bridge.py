"""A guest objective for trainers in PyTorch: tensors become arrays and back without a copy where that can be (DLPack).

The loss is one `torch.autograd.Function`: its forward is `Objective.loss` and its gradient, one compiled program; its
backward multiplies. All arrays have T tokens, the longest possible answer: so there is one program for all batches,
however long their answers are, and constants of the length mean the same as in ipsrl.
"""

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

# JAX would take most of a GPU's memory, which PyTorch needs.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl import extras
from ipsrl.integrations.guest import GuestObjective
from ipsrl.integrations.rows import Rows
from ipsrl.structures import Metrics, Weights

try:
    import torch
    from torch import Tensor
    from torch.autograd.function import once_differentiable
except ImportError:
    extras.require("torch")
    raise

PREFIX = "ipsrl_"
"""Beginning of the names of tensors that the bridge adds to a trainer's batch."""
ADVANTAGES, COEFFICIENT = "advantages", "coefficient_"
COUNT = "count_of_step"
"""The name of the divisor of the loss in a trainer's batch."""


class TorchBridge:
    """An objective for a trainer whose batches are dictionaries of tensors, one answer in each row.

    `weigh` returns tensors to be put into the batch; however the trainer then orders and cuts its rows, `loss` finds
    there what it needs.

    Args:
      guest: the objective.
      max_length: T, the longest possible answer.
    """

    def __init__(self, guest: GuestObjective, max_length: int):
        self.guest, self.max_length = guest, max_length

    def weigh(
        self,
        prompts: Sequence[Hashable],
        rewards: Tensor,
        outcome_id: np.ndarray,
        truncated: Tensor,
        **of_tokens: Tensor | None,
    ) -> tuple[dict[str, Tensor], Metrics]:
        """`[B, ...]` tensors for the trainer's batch, and metrics; as `GuestObjective.weigh`.

        Args:
          **of_tokens: as `of_tokens` takes them.
        """
        padded = self.of_tokens(**of_tokens)
        device = padded[f"{PREFIX}tokens"].device
        rows = Rows(
            prompt_index=self.guest.prompt_index(prompts),
            outcome_id=outcome_id,
            rewards=to_array(rewards.float()),
            truncated=to_array(truncated),
            **{name.removeprefix(PREFIX): to_array(values) for name, values in padded.items()},
        )
        weights, metrics = self.guest.weigh(rows)
        carried = {name: values for name, values in vars(rows).items() if isinstance(values, Array | np.ndarray)}
        carried[ADVANTAGES] = weights.advantages
        carried |= {f"{COEFFICIENT}{number}": values for number, values in enumerate(weights.coefficients)}
        return {PREFIX + name: to_tensor(values, device) for name, values in carried.items()}, metrics

    def of_tokens(self, tokens: Tensor, token_mask: Tensor, **scores: Tensor | None) -> dict[str, Tensor]:
        """The tensors `[B, T]` of the batch that `weigh` returns as they were given, of those that were.

        Args:
          **scores: `behaviour_log_probs`, `behaviour_entropy` and `reference_log_probs` of `Rows`.
        """
        given = {"tokens": tokens.int(), "token_mask": token_mask.bool()}
        given |= {name: values.float() for name, values in scores.items() if values is not None}
        return {PREFIX + name: self.padded(values) for name, values in given.items()}

    def loss(
        self, log_probs: Tensor, entropy: Tensor, batch: Mapping[str, Any], count: Tensor | float
    ) -> tuple[Tensor, Metrics]:
        """The loss of some rows of a batch, with its gradient by the scores, and metrics; as `GuestObjective.loss`.

        Args:
          log_probs, entropy: `[B, up to T]`, of any floating type; their gradients have it as well.
          batch: with the tensors of `weigh`, of these rows.
          count: of all rows of the optimiser step, see `count`.
        """
        arrays = {
            name.removeprefix(PREFIX): to_array(values) for name, values in batch.items() if name.startswith(PREFIX)
        }
        advantages = arrays.pop(ADVANTAGES)
        names = [f"{COEFFICIENT}{number}" for number in range(len(self.guest.objective.penalties))]
        weights = Weights(advantages, tuple(arrays.pop(name) for name in names))
        rows = Rows(**arrays)
        measured: Metrics = {}

        def compute(log_probs: Tensor, entropy: Tensor) -> tuple[Tensor, list[Tensor]]:
            scores = to_array(log_probs), to_array(entropy)
            value, gradients, metrics = self.guest.loss(*scores, rows, weights, float(count))
            measured.update(metrics)
            return to_tensor(value, log_probs.device), [to_tensor(each, log_probs.device) for each in gradients]

        return _Loss.apply(self.padded(log_probs), self.padded(entropy), compute), measured

    def count(self, token_mask: Tensor) -> float:
        """The divisor of the loss of some rows, whose mask is `[B, up to T]`; see `GuestObjective.count`."""
        return float(self.guest.count(to_array(self.padded(token_mask.bool()))))

    def scaled(self, weighed: dict[str, Tensor], factor: Tensor) -> dict[str, Tensor]:
        """The tensors of `weigh` with the advantages of all tokens multiplied, by `[B, 1]` or `[B, up to T]`."""
        factor = self.padded(factor) if factor.shape[1] > 1 else factor
        return weighed | {PREFIX + ADVANTAGES: weighed[PREFIX + ADVANTAGES] * factor}

    def padded(self, values: Tensor) -> Tensor:
        """`[B, T]`, with zeros at the end."""
        length = values.shape[1]
        if length > self.max_length:
            raise ValueError(f"an answer has {length} tokens, and the longest possible one {self.max_length}")
        return torch.nn.functional.pad(values, (0, self.max_length - length))


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, entropy: Tensor, compute: Callable) -> Tensor:
        value, gradients = compute(log_probs.detach().float(), entropy.detach().float())
        ctx.save_for_backward(*gradients)
        ctx.dtypes = log_probs.dtype, entropy.dtype
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # Rounded once, at the end.
        return *((gradient * each).to(dtype) for each, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)), None


def to_array(tensor: Tensor) -> Array:
    """An array with the memory of a tensor, or a copy where JAX cannot reach it."""
    tensor = tensor.detach().contiguous()
    if tensor.is_cuda and jax.default_backend() == "cpu":
        tensor = tensor.cpu()
    # CUDA programs refuse the part of a batch that begins elsewhere.
    if tensor.is_cuda and tensor.data_ptr() % 16:
        tensor = tensor.clone()
    return jax.dlpack.from_dlpack(tensor)


def to_tensor(array: Array | np.ndarray, device: torch.device) -> Tensor:
    """A tensor with the memory of an array, or a copy on its device. It must not be written to."""
    return torch.from_dlpack(jax.block_until_ready(jnp.asarray(array))).to(device)
