"""Dynamic sampling: samples prompts until enough groups have rewards that differ."""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import Checked, at_least

Batch = TypeVar("Batch")


@dataclasses.dataclass(frozen=True)
class DynamicSampling(Checked):
    """Samples more prompts until every group of a batch is informative (DAPO, arXiv 2503.14476).

    A group is informative if its rewards differ, before any shaping (shaped rewards are rarely all equal). Slots
    without an informative group are filled with the groups sampled last. Each round samples a whole batch of new
    prompts and discards what it does not use, so that shapes are fixed.

    Attributes:
      rounds: maximum number of batches sampled in one step; 10 as in verl.

    Raises:
      ValueError: `rounds` is below 1.
    """

    rounds: int = at_least(1, 10, called="rounds of dynamic sampling")


@jax.jit
def fill(batch: Batch, kept: Array, fresh: Batch, usable: Array) -> tuple[Batch, Array]:
    """Puts fresh groups into the free slots of a batch.

    Kept groups stay in their slots. The free slots take the usable fresh groups in order, then the other fresh groups.

    Args:
      batch, fresh: pytrees of arrays `[P, ...]`.
      kept, usable: `[P]` bool, which of their groups are informative.

    Returns:
      the new batch, and `[P]` bool: which slots hold an informative group.
    """
    usable_first = jnp.argsort(~usable, stable=True)
    # The k-th free slot takes the k-th fresh group; at kept slots the value is not used.
    source = usable_first[jnp.cumsum(~kept) - 1]

    def merge(old, new):
        return jnp.where(kept.reshape(-1, *(1,) * (old.ndim - 1)), old, new[source])

    return jax.tree.map(merge, batch, fresh), kept | usable[source]
