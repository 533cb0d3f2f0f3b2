"""Objectives that read several rewards of each answer, `Rollouts.reward_parts`, in the place of one."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class SumOfNormalised(RolloutPart):
    """A_g = S_g / std of S over the batch, S = sum_m w_m (r_m - mean) / std of the group: GDPO (arXiv 2601.05242).

    The mean of S over the batch is zero, as that of each group is. A reward that is equal in the whole group adds
    nothing to S, and what is left of terms that cancel is rounding, and counts as zero. Standard deviations are as in
    `GroupMeanStd`; that of the batch divides by the number of all answers, or with `unbiased=True` by one less.

    Attributes:
      weights: M numbers, w; None for equal ones. Only their ratios count.
    """

    weights: tuple[float, ...] | None = non_negative(None, called="each weight of a reward")
    unbiased: bool = False
    needs: ClassVar[frozenset[str]] = frozenset({"reward_parts"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        parts = rollouts.reward_parts.astype(values.dtype)
        number = parts.shape[-1]
        weights = self.weights or (1.0,) * number
        if len(weights) != number:
            raise ValueError(f"there are {len(weights)} weights, but {number} rewards of each answer: give {number}")
        norm, total, rounding = GroupMeanStd(unbiased=self.unbiased), 0.0, 0.0
        for weight, rewards in zip(weights, jnp.moveaxis(parts, -1, 0), strict=True):
            total += weight * (term := norm(rewards, rollouts))
            # Relative to its standard deviation, a reward is known up to this.
            of_group = jnp.abs(rewards).max(axis=-1) / jnp.where(term.any(axis=-1), rewards.std(axis=-1), jnp.inf)
            rounding += 8 * jnp.finfo(term.dtype).eps * weight * of_group[:, None]
        # A std of the batch of rounding alone would turn it into advantages of order one.
        total = jnp.where(jnp.abs(total) <= rounding, 0.0, total)
        std = total.std(ddof=1 if self.unbiased else 0)
        return total / jnp.where(std == 0, 1.0, std)


def gdpo(
    weights: tuple[float, ...] | None = None,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GDPO (arXiv 2601.05242): A = S / std of S over the batch, S = sum_m w_m norm(r_m), r_m its M rewards.

    GRPO takes norm of the sum, in which a reward of large variance drowns the others; here each counts by its weight.
    The weights are equal by default. Standard deviations are the population's, and no epsilon is added; TRL divides by
    one answer less, and adds 1e-4.

    Degenerate: a reward that is equal in a group adds nothing there; groups in which all are equal get exactly zero.
    Evidence: code (TRL).
    Peers: TRL, verl, NeMo-RL.
    """
    return with_clip(clip, aggregation, advantages=SumOfNormalised(weights))
