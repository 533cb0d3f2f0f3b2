"""Aggregation of token values into one number: `[P, G, T]` -> `(sum, count)`. The choice is part of an algorithm."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.parts import Aggregation
from ipsrl.structures import masked_sum


@dataclasses.dataclass(frozen=True)
class TokenMean:
    """Mean over all tokens of the batch: long answers weigh more (DAPO, arXiv 2503.14476)."""

    def __call__(self, values: Array, mask: Array) -> tuple[Array, Array]:
        return masked_sum(values, mask), mask.sum(dtype=jnp.float32)


@dataclasses.dataclass(frozen=True)
class SequenceMean:
    """Mean over answers of each answer's mean over tokens (GRPO, arXiv 2402.03300). Empty answers do not count."""

    def __call__(self, values: Array, mask: Array) -> tuple[Array, Array]:
        length = mask.sum(axis=-1)
        means = masked_sum(values, mask, axis=-1) / jnp.maximum(length, 1)
        return means.sum(), (length > 0).sum(dtype=jnp.float32)


@dataclasses.dataclass(frozen=True)
class SequenceSum:
    """Mean over answers of each answer's token sum divided by a constant `length`.

    length = 1 gives the log-probability of the whole trajectory: the true policy gradient. `None` uses the longest
    possible answer, T (Dr. GRPO, arXiv 2503.20783). Empty answers do not count.
    """

    length: int | None = 1

    def __call__(self, values: Array, mask: Array) -> tuple[Array, Array]:
        length = mask.shape[-1] if self.length is None else self.length
        return masked_sum(values, mask) / length, mask.any(axis=-1).sum(dtype=jnp.float32)


AggregationName = Literal["sequence_mean", "token_mean", "sequence_sum", "constant_length"]


def aggregated_by(name: AggregationName) -> Aggregation:
    """The aggregation with this name; `constant_length` divides token sums by the longest possible answer."""
    return {
        "sequence_mean": SequenceMean(),
        "token_mean": TokenMean(),
        "sequence_sum": SequenceSum(),
        "constant_length": SequenceSum(length=None),
    }[name]
