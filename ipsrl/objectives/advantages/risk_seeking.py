"""Advantages that value the best answers of a group above its mean: `[P, G]` -> `[P, G]`.

Correct answers are those of `Rollouts.right`.
"""

import dataclasses
from math import comb
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import at_least, positive
from ipsrl.objectives.objective import RolloutPart, all_equal, less_largest, rounding
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class ExponentialUtility(RolloutPart):
    """A_g = (exp(beta r_g) / mean of exp(beta r) - 1) / beta: RS-GRPO (arXiv 2509.24261).

    Its mean update tends, as G grows, to the gradient of log(E[exp(beta r)]) / beta, which lies between E[r] (beta = 0)
    and the largest reward (beta = inf).
    """

    beta: float = positive(2.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        # Relative to the largest reward, so that nothing overflows, and minus 1, so that small rewards are not rounded.
        utility = jnp.expm1(self.beta * less_largest(values))
        mean = utility.mean(axis=-1, keepdims=True)
        advantages = (utility - mean) / (1.0 + mean) / self.beta
        return jnp.where(all_equal(values)[:, None], 0.0, advantages)


@dataclasses.dataclass(frozen=True)
class BestOfSets(RolloutPart):
    """A_g = k/G E[ max(S) | o_g in S ] - baseline, S uniform over the sets of k of the group: PKPO (arXiv 2505.15201).

        rest of the set:  k/G E[max(S without o_g)]                    A_g = k/G E[ max(r_g - max(rest), 0) ] >= 0
        other sets:       k/(G-1) E[max(S)], S of k of the others      needs G > k
        none:             0

    The sum over a group's answers of A_g grad log pi is an unbiased estimate of the gradient of E[max of k answers].
    Every baseline is independent of the answer that it is subtracted from. With the first, only answers that can be
    the best of a set by themselves get more than zero, and groups with equal rewards get exactly zero; with the second,
    such groups get -k r / (G (G-1)). Closed form: of the G-1 others, j is the best of a set of k-1 with probability
    C(number of others below j, k-2) / C(G-1, k-1).

    Attributes:
      k: the size of a set; None for the whole group. Then, and with the first baseline, the only answer with the
        largest reward gets its distance to the second largest, and all others zero.
      baseline: as above.
      graded: the best is the largest reward; otherwise 1 if an answer of the set is correct.
      standardise: divides by the standard deviation of the group's rewards (the population's; no epsilon is added).
    """

    k: int | None = at_least(2, None, called="k, the size of a set,")
    baseline: Literal["rest_of_set", "other_sets", "none"] = "rest_of_set"
    graded: bool = False
    standardise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is None and self.baseline == "other_sets":
            raise ValueError("baseline=other_sets needs a k below the group's size, but k is None, the whole group")

    @property
    def smallest_group(self) -> int:
        return (self.k or 2) + (self.baseline == "other_sets")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        rewards = values if self.graded else rollouts.right.astype(jnp.float32)
        group = values.shape[-1]
        k = group if self.k is None else self.k
        # Among equal rewards it does not matter which one is called the best.
        rank = jnp.argsort(jnp.argsort(rewards, axis=-1), axis=-1)
        own, other = rank[:, :, None], rank[:, None, :]
        below = other - (own < other)

        def is_best_of(drawn: int) -> Array:
            """`[P, G, G]`, the probability that j is the best of `drawn` others of an answer."""
            table = [comb(number, drawn - 1) / comb(group - 1, drawn) for number in range(group)]
            return jnp.where(own == other, 0.0, jnp.float32(np.array(table))[below])

        mine, others = rewards[:, :, None], rewards[:, None, :]
        if self.baseline == "rest_of_set":
            ahead = mine - others > rounding(rewards)[..., None]
            gained = jnp.where(ahead, mine - others, 0.0)
            advantages = k / group * (is_best_of(k - 1) * gained).sum(axis=-1)
        else:
            advantages = k / group * (is_best_of(k - 1) * jnp.maximum(mine, others)).sum(axis=-1)
        if self.baseline == "other_sets":
            advantages -= k / (group - 1) * (is_best_of(k) * others).sum(axis=-1)
        if not self.standardise:
            return advantages
        std = values.std(axis=-1, keepdims=True)
        silent = all_equal(values)[:, None] | (std == 0)
        return jnp.where(silent, 0.0, advantages / jnp.where(silent, 1.0, std))
