"""Objectives that read several rewards of each answer, `Rollouts.reward_parts`, in the place of one."""

import dataclasses
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import at_least, non_negative
from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd
from ipsrl.objectives.advantages.risk_seeking import BestOfSets
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective, RolloutPart, all_equal
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


@dataclasses.dataclass(frozen=True)
class BestOfSetsByWeights(RolloutPart):
    """A_g = E[f(S) | o_g in S] - E[f(S)], f(S) = mean over w of max of w . r in S: VPO (arXiv 2605.22817).

    S is uniform over the sets of k of the group, and w over `weight_vectors`, a flat Dirichlet distribution on a grid.
    The advantages of a group add up to zero; equal rewards get exactly zero. The mean of A_g grad log pi over a group
    is an unbiased estimate of (1/k - 1/G) times the gradient of E[f(k answers)].

    Attributes:
      k: the size of a set, below that of the group: with the whole group every advantage would be zero.
      divisions: of the grid; 1 leaves the mean of an answer's rewards.
    """

    k: int = at_least(2, 2, called="k, the size of a set,")
    divisions: int = at_least(1, 16)
    needs: ClassVar[frozenset[str]] = frozenset({"reward_parts"})

    @property
    def smallest_group(self) -> int:
        return self.k + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        parts = rollouts.reward_parts.astype(values.dtype)
        group, number = parts.shape[-2:]
        # Relative to the group's smallest, so that what is equal for all its answers adds exactly nothing.
        equal = all_equal(parts.mT)[:, None]
        parts = jnp.where(equal, 0.0, parts - parts.min(axis=-2, keepdims=True))
        best = BestOfSets(self.k, baseline="none", graded=True)
        vectors = jnp.asarray(weight_vectors(number, self.divisions), parts.dtype)
        worth = group / self.k * jax.vmap(lambda weights: best(parts @ weights, rollouts))(vectors).mean(axis=0)
        return GroupMean()(worth, rollouts)


def weight_vectors(number: int, divisions: int) -> np.ndarray:
    """`[V, M]`, the points (c + 1/M) / divisions, c all vectors of M whole numbers >= 0 whose sum is divisions - 1.

    Each adds up to 1, and their mean is 1/M everywhere. V = C(divisions + M - 2, M - 1); for M = 2 they are the middles
    of equal parts of the line between (1, 0) and (0, 1).
    """
    places = divisions + number - 2
    bars = itertools.combinations(range(places), number - 1)
    counts = np.diff([(-1, *chosen, places) for chosen in bars], axis=-1) - 1
    return (counts + 1 / number) / divisions


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


def vector_po(
    k: int = 2,
    divisions: int = 16,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """VPO (arXiv 2605.22817): A = E[f(S) | o in S] - E[f(S)], f = mean_w max_S w . r, w weights, S k of G.

    r are the M rewards of an answer, and w ~ Dirichlet(1, .., 1): a set is worth more if each of its answers is best
    for some weights. The mean over w is that over a grid of `divisions` to a side, C(divisions + M - 2, M - 1) vectors
    in all. In the paper a set is sampled as one answer; here sets are all those of k in the group, as in Poly-PPO, and
    nothing divides by a standard deviation (our reading). The defaults of `k` and `divisions` are our choice.

    Degenerate: groups whose answers are equal in each reward get exactly zero.
    Evidence: second-hand; the flat Dirichlet is our reading, the exact mean over sets is derived.
    """
    return with_clip(clip, aggregation, advantages=BestOfSetsByWeights(k, divisions))
