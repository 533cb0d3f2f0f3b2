"""Advantages of answers that differ enough from one of the opposite sign: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative
from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.estimators.subgroups import normalised_among
from ipsrl.objectives.objective import RolloutPart, rounding
from ipsrl.structures import Rollouts, masked_mean

Similarity = Literal["none", "outcome", "tokens"]


def shared_tokens(tokens: Array, mask: Array) -> Array:
    """Share of positions at which two answers of a group have the same token, `[P, G, T]` -> `[P, G, G]` in [0, 1].

    Positions count up to the end of the longer answer; two empty answers have share 0.
    """
    # Padding on one side equals no token of the other. One answer at a time: all pairs at once would be [P, G, G, T].
    real, others = jnp.where(mask, tokens, -1), jnp.where(mask, tokens, -2)

    def with_one(other):
        return (real == other[:, None]).sum(axis=-1, dtype=jnp.float32)

    equal = jax.lax.map(with_one, jnp.moveaxis(others, 1, 0))
    equal = jnp.moveaxis(equal, 0, -1)
    length = mask.sum(axis=-1)
    return equal / jnp.maximum(jnp.maximum(length[:, :, None], length[:, None, :]), 1)


@dataclasses.dataclass(frozen=True)
class DistinctPairs(RolloutPart):
    """Group mean and std over the answers that differ enough from one of the opposite sign; 0 for the others.

        d_ij = |r_i - r_j| (1 - sim_ij),  i above and j below the group's mean
        kept_i = [ mean_j or max_j d_ij >= tau ]
        A_i = kept_i (r_i - mean) / std * G / (number kept)

    DaGRPO (arXiv 2512.06337), reconstructed from its abstract and summaries: all of it is our reading. The last factor
    turns a mean over all answers into a mean over the kept ones. A reward at the group's mean has no opposite and is
    not kept.

    Attributes:
      tau: minimum distinctiveness of a kept answer, in units of reward.
      over: `mean` over the opposite answers, or `max` (then the most distinct opposite of a kept answer is kept too).
      similarity: `shared_tokens` (G comparisons for each token); `outcome`, 1 for the same outcome and 0 otherwise; or
        `none`, always 0.
      baseline: mean and std over the `kept` answers, or over the whole `group`.
    """

    tau: float = non_negative(0.5)
    over: Literal["mean", "max"] = "mean"
    similarity: Similarity = "tokens"
    baseline: Literal["kept", "group"] = "kept"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        kept = self.kept(values, rollouts)
        if self.baseline == "kept":
            advantages = normalised_among(values, kept[:, :, None] & kept[:, None, :])
        else:
            advantages = jnp.where(kept, GroupMeanStd()(values, rollouts), 0.0)
        return advantages * values.shape[-1] / jnp.maximum(kept.sum(axis=-1, keepdims=True), 1)

    def kept(self, values: Array, rollouts: Rollouts) -> Array:
        """`[P, G]` bool, True for answers that are distinct enough."""
        centred = GroupMean()(values, rollouts)
        side = jnp.where(jnp.abs(centred) <= rounding(values), 0.0, jnp.sign(centred))
        opposite = side[:, :, None] * side[:, None, :] < 0
        distance = jnp.abs(values[:, :, None] - values[:, None, :])
        if self.similarity == "outcome":
            distance *= ~same_outcome(rollouts.outcome_id)
        elif self.similarity == "tokens":
            distance *= 1.0 - shared_tokens(rollouts.tokens, rollouts.token_mask)
        if self.over == "max":
            distinctiveness = jnp.where(opposite, distance, 0.0).max(axis=-1)
        else:
            distinctiveness = masked_mean(distance, opposite, axis=-1)
        return opposite.any(axis=-1) & (distinctiveness >= self.tau - rounding(values))
