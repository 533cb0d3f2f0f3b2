"""The placebo of DaGRPO's mask."""

import dataclasses
from typing import ClassVar

import jax
from jax import Array

from ipsrl.objectives.catalog.refinements import DistinctPairs
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class RandomPairs(DistinctPairs):
    """Placebo of DaGRPO's mask: of each reward it keeps as many answers of a group, but chosen at random."""

    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def kept(self, values: Array, rollouts: Rollouts) -> Array:
        """`[P, G]` bool."""
        chance = jax.vmap(lambda key: jax.random.uniform(key, values.shape[1:]))(rollouts.keys)
        same = values[:, :, None] == values[:, None, :]
        before = chance[:, None, :] < chance[:, :, None]
        place = (same & before).sum(axis=-1)
        distinct = super().kept(values, rollouts)
        number = (same & distinct[:, None, :]).sum(axis=-1)
        return place < number
