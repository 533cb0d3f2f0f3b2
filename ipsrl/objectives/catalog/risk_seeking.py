"""Objectives between the mean of a group's rewards and the largest of them."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.ties import all_equal, less_largest
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


def rs_grpo(
    beta: float = 2.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """RS-GRPO (arXiv 2509.24261): A = (exp(beta r) / group mean of exp(beta r) - 1) / beta.

    The objective is log(E[exp(beta r)]) / beta, between the mean and the best reward; beta near 0 gives Dr. GRPO, 2 is
    what the authors recommend. With rewards 0 and 1 it is Dr. GRPO times (e^beta - 1) / (beta (1 + (e^beta - 1) m)), m
    the share of correct answers: a weight of the prompt, larger for harder ones. All correct answers get the same.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code; the weight of the prompt is derived.
    """
    return with_clip(clip, aggregation, advantages=ExponentialUtility(beta))
