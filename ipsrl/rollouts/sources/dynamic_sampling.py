"""Dynamic sampling: samples prompts until enough groups have rewards that differ."""

import dataclasses
import operator
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least
from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import sharded
from ipsrl.objectives.ties import all_equal
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State, Wrapper, with_sampling_metrics
from ipsrl.structures import Metrics, select

Batch = TypeVar("Batch")


@dataclasses.dataclass(frozen=True)
class DynamicSampling(Wrapper):
    """Samples more prompts until every group of a batch is informative (DAPO, arXiv 2503.14476).

    A group is informative if its rewards differ, before any shaping (shaped rewards are rarely all equal). Slots
    without an informative group are filled with the groups sampled last. Each round samples a whole batch of new
    prompts and discards what it does not use, so that shapes are fixed.

    Metrics: `sampling_rounds`, and `kept_groups`, the share of informative groups in the batch.

    Attributes:
      rounds: maximum number of batches sampled in one step; 10 as in verl.

    Raises:
      ValueError: `rounds` is below 1.
    """

    rounds: int = at_least(1, 10, called="rounds of dynamic sampling")

    asks = "prompts"

    def check_inner(self) -> None:
        """Raises ValueError also if groups have a single answer, because their rewards never differ."""
        super().check_inner()
        if self.sampled.group_size < 2:
            raise ValueError("dynamic sampling compares the answers of a group: group_size is 1, it must be at least 2")

    @property
    def on_host(self) -> bool:
        """True: whether another round is needed is decided outside of the program."""
        return True

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        inner, batch, kept, start, totals = state[1], None, None, 0, {}
        for number in range(self.rounds):
            asked = dataclasses.replace(request, start=start, round=number)
            inner, groups, metrics = self.inner(inner, actors, asked)
            metrics = with_sampling_metrics(groups, metrics)
            informative = _informative(groups[1].rewards)
            batch, kept = fill(batch, kept, groups, informative) if number else (groups, informative)
            metrics, share = hosts.to_host((metrics, kept.mean()))
            totals = jax.tree.map(operator.add, totals, metrics) if number else metrics
            start += int(metrics.get("prompts_scanned", metrics["prompts_sampled"])[0])
            if share == 1:
                break
        totals |= {"sampling_rounds": (number + 1, 0), "kept_groups": (share, 1)}
        # Always the same type, so that the update is compiled once.
        return (None, inner), sharded(batch), totals


@jax.jit
def _informative(rewards: Array) -> Array:
    return ~all_equal(rewards)


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

    merged = jax.tree.map(lambda old, new: select(kept, old, new[source]), batch, fresh)
    return merged, kept | usable[source]
