"""Dynamic sampling: only groups whose rewards differ are trained on, and prompts are sampled until there are enough."""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import Checked, at_least

Batch = TypeVar("Batch")


@dataclasses.dataclass(frozen=True)
class DynamicSampling(Checked):
    """Samples further prompts until every group of a batch is informative (DAPO, arXiv 2503.14476).

    A group is informative where its rewards differ, as the environment gave them: shaped rewards are rarely all equal.
    What no informative group was found for is filled with the groups that were sampled last, as they are. Each round
    samples a whole batch of fresh prompts, and what is left over of it is thrown away, so that shapes are fixed.

    Attributes:
      rounds: how often a batch of prompts is sampled in one step at most. 10 is verl's.

    Raises:
      ValueError: there are no rounds.
    """

    rounds: int = at_least(1, 10, called="rounds of dynamic sampling")


@jax.jit
def fill(batch: Batch, kept: Array, fresh: Batch, usable: Array) -> tuple[Batch, Array]:
    """Puts fresh groups into the slots of a batch that hold nothing worth keeping.

    Kept groups stay where they are. The free slots take the usable fresh groups in their order, then the others.

    Args:
      batch, fresh: pytrees of arrays `[P, ...]`.
      kept, usable: `[P]` bool, which of their groups are informative.

    Returns:
      the new batch, and which of its slots hold an informative group.
    """
    usable_first = jnp.argsort(~usable, stable=True)
    # The k-th free slot takes the k-th of them; for the slots that are kept it does not matter.
    source = usable_first[jnp.cumsum(~kept) - 1]

    def merge(old, new):
        return jnp.where(kept.reshape(-1, *(1,) * (old.ndim - 1)), old, new[source])

    return jax.tree.map(merge, batch, fresh), kept | usable[source]
