"""Objectives that weigh prompts by how often they are solved: all correct answers of a prompt get the same.

Correct answers are those of `Rollouts.right`.
"""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, probability
from ipsrl.objectives.advantages import group_centred
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.ties import all_equal, rounding
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class FocalWeight(RolloutPart):
    """F-GRPO: A (1 - mu)^gamma, mu the group's share of correct answers (arXiv 2602.06717).

    A weight of the prompt, like the focal loss: all correct answers get the same. Zero if all are correct.
    """

    gamma: float = non_negative(1.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        wrong = (~rollouts.right).mean(axis=-1, dtype=jnp.float32)
        return values * wrong[:, None, None] ** self.gamma


def f_grpo(
    gamma: float = 1.0,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """F-GRPO (arXiv 2602.06717): A = (1 - share of correct answers)^gamma norm(r).

    Prompts that mostly succeed weigh less, so an update that misses a rare correct answer also weighs less. All correct
    answers get the same weight. The paper's gamma is unverified: 1 is our reading.

    Degenerate: groups whose rewards are all equal, and for gamma > 0 those without a wrong answer, get exactly zero.
    Evidence: second-hand; the default of gamma is our reading.
    """
    return with_clip(clip, aggregation, advantages=group_centred(standardise), reweighting=(FocalWeight(gamma),))


@dataclasses.dataclass(frozen=True)
class MaximumLikelihood(RolloutPart):
    """A_g = (r_g - mean) / mean^q of the group: MaxRL (q = 1, arXiv 2602.02710), GARL (arXiv 2604.25907).

    Between the return (q = 0) and the likelihood of success (q = 1). Zero if the mean is not positive, up to rounding,
    or all rewards are equal. With rewards 0 and 1 and success probability p, the mean update is w grad p, where w tends
    to p^-q as G grows; at q = 1, w = (1 - (1 - p)^(G-1)) / p. `centred=False` is A_g = r_g / mean^q; at q = 1 this is a
    mean over the correct answers alone, and w = (1 - (1 - p)^G) / p.
    """

    centred: bool = True
    q: float = probability(1.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mean = values.mean(axis=-1, keepdims=True)
        earns = mean > rounding(values)
        scale = jnp.where(earns, mean, 1.0) ** self.q
        if not self.centred:
            return jnp.where(earns, values / scale, 0.0)
        return jnp.where(earns & ~all_equal(values)[:, None], (values - mean) / scale, 0.0)


def maxrl(
    centred: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """MaxRL (arXiv 2602.02710): A = (r - group mean) / group mean.

    With rewards 0 and 1 and success probability p, the mean update is w grad p, which tends to the gradient of log p: w
    = (1 - (1-p)^(G-1)) / p. `centred=False` omits the -1, so that only correct answers are learned from: w = (1 -
    (1-p)^G) / p, the weight of a single correct outcome under IPS with counts.

    Degenerate: groups whose mean is not positive, or (centred) whose rewards are all equal, get exactly zero.
    Evidence: second-hand; the weights w are derived.
    Peers: SkyRL, prime-rl.
    """
    return with_clip(clip, aggregation, advantages=MaximumLikelihood(centred))


def garl(
    q: float = 0.75,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GARL (arXiv 2604.25907): A = (r - group mean) / (group mean)^q.

    One knob between Dr. GRPO (q = 0) and MaxRL (q = 1): the loss family J_Q amplifies the gradient of a prompt by P^-q,
    P its success probability, so that prompts which are hardly ever solved are learned sooner; 0.75 is the paper's q
    from a cold start. Our reading: P is the group's mean, and so is the baseline. With rewards 0 and 1 the mean update
    is grad p times E[(1 - (c+1)/G) ((c+1)/G)^-q + (c/G)^(1-q)], c of the G - 1 other answers correct: about p^-q,
    but (G-1)/G G^q where p is far below 1/G. All correct answers of a prompt get the same: ties are lost as before.

    Degenerate: groups whose mean is not positive, or whose rewards are all equal, get exactly zero.
    Evidence: second-hand (the abstract); the baseline is our reading, the factor is derived.
    """
    return with_clip(clip, aggregation, advantages=MaximumLikelihood(q=q))
