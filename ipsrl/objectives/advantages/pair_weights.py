"""Weights that make a mean over answers one over groups of the mean over their pairs: `[P, G]` -> `[P, G]`."""

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

    Answers without tokens do not count, as in `SequenceMean`. The mean over all others of A_w * (sum over the answers
    that w beats) is then the mean over groups with a pair of the mean over their pairs: groups without one do not
    dilute it. Pairs are of the environment's rewards.
    """

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        pairs = beats(rollouts)
        in_group = pairs.sum(axis=(1, 2))
        groups = (in_group > 0).sum()
        answers = rollouts.token_mask.any(axis=-1).sum()
        weight = answers / jnp.maximum(groups * in_group, 1)
        return jnp.where(pairs.any(axis=-1), weight[:, None], 0.0)
