"""Weights that turn a mean over answers into a mean over groups of the mean over pairs: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.estimators.pairs import beats
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class PairWeights(RolloutPart):
    """A_w = number of answers / (groups with a pair * pairs in the group) for answers that beat another, 0 elsewhere.

    Answers without tokens do not count, as in `SequenceMean`. The mean over answers of A_w * (sum over the answers that
    w beats) is then the mean over groups of the mean over pairs; groups without a pair are left out. Pairs are formed
    from the environment's rewards.
    """

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        pairs = beats(rollouts)
        in_group = pairs.sum(axis=(1, 2), dtype=jnp.float32)
        groups = (in_group > 0).sum()
        answers = rollouts.answered.sum()
        weight = answers / jnp.maximum(groups * in_group, 1)
        return jnp.where(pairs.any(axis=-1), weight[:, None], 0.0)
