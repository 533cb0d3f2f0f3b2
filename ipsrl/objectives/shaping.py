"""Reward shaping that several families share, `[P, G]` -> `[P, G]`: inverse probability scaling by a group's counts."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.bisection import bisected
from ipsrl.checking.fields import above, below_one, non_negative, probability
from ipsrl.objectives.estimators.answered import largest_of_answered
from ipsrl.objectives.estimators.frequency import outcome_frequency
from ipsrl.objectives.parts import RolloutPart
from ipsrl.structures import Rollouts

BISECTIONS = 30
"""Bisection steps for the exponent: its range is halved to a billionth."""


@dataclasses.dataclass(frozen=True)
class InverseScaling(RolloutPart):
    """Base of inverse probability scaling: rewards times w_g = p_g^(-e), with e = `alpha` unless the effective sample
    size is too small.

    With `effective_share` s > 0, each group uses the largest e <= alpha at which the effective sample size of its
    weights, (sum w)^2 / sum w^2, is at least s G (our reading: of the weights alone, without the rewards; of answers
    with tokens). It falls as e grows: with x = -log p, its logarithm has the slope 2 (mean of x under w - mean of x
    under w^2) <= 0.
    """

    alpha: float = non_negative(1.0)
    _: dataclasses.KW_ONLY
    effective_share: float = below_one(0.0)

    def exponent(self, log_probability: Array, rollouts: Rollouts) -> Array | float:
        """e, from log p `[P, G]`: one number, or `[P, 1]` if it depends on the group."""
        if self.effective_share == 0.0:
            return self.alpha
        answered = rollouts.answered
        surprise = largest_of_answered(log_probability, rollouts) - log_probability
        least = jnp.log(self.effective_share * answered.sum(axis=-1))

        def enough(exponent):
            log_weight = jnp.where(answered, exponent[:, None] * surprise, -jnp.inf)
            return 2 * jax.nn.logsumexp(log_weight, axis=-1) - jax.nn.logsumexp(2 * log_weight, axis=-1) >= least

        whole = jnp.full(log_probability.shape[0], self.alpha, jnp.float32)
        low, _ = bisected(enough, jnp.zeros_like(whole), whole, BISECTIONS)
        return jnp.where(enough(whole), whole, low)[:, None]


@dataclasses.dataclass(frozen=True)
class InverseFrequency(InverseScaling):
    """Inverse probability scaling with the group's own frequencies (arXiv 2601.21669, Algorithm 1, Eq. 9).

        r~_g = r_g / max(phat(o_g), floor)^alpha,    phat = (n + pseudo_count) / (G + pseudo_count)

    `alpha = 1` without pseudo-count is the paper's rule; the ideal flow ends at p proportional to r^(1/alpha). Without
    pseudo-count a floor up to 1/G has no effect. A pseudo-count lambda > 0 (add-lambda smoothing; Laplace's rule up to
    a constant factor) narrows the range of the weights from G^alpha to ((G + lambda) / (1 + lambda))^alpha. A
    pseudo-count of (alpha - 1) / 2 removes the term of order 1/G of the bias E[phat^-alpha] p^alpha - 1.

    If every outcome of a group is unique, all weights are equal and the scaling has no effect: see
    `InverseProbability`. Meant for non-negative rewards: of rewards of -1, those of the rarest mistakes are scaled up
    most.
    """

    CALLED: ClassVar[str] = "inverse probability"
    floor: float = probability(0.0)
    pseudo_count: float = above(-1, 0.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        probability = jnp.maximum(outcome_frequency(rollouts.outcome_id, self.pseudo_count), self.floor)
        return values / probability ** self.exponent(jnp.log(probability), rollouts)
