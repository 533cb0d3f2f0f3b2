"""Losses that compare the likelihoods of a group's answers with what their rewards say."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.checking.fields import non_negative, positive
from ipsrl.objectives.advantages import group_centred
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.answered import counted, equal_among_answered, less_largest_of_answered
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Penalty, Surrogate
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_mean, masked_sum


def log_softmax_of_answered(values: Array, rollouts: Rollouts) -> Array:
    """`[P, G]`, log softmax of `[P, G]` over answers with tokens; 0 at the others.

    Terms of unbounded size, such as rewards divided by a temperature, need to be those of
    `less_largest_of_answered`: a compiled program may round them here in one way and there in another.
    """
    log_total = logsumexp(values, axis=-1, keepdims=True, where=counted(rollouts))
    return jnp.where(rollouts.answered, values - log_total, 0.0)


@dataclasses.dataclass(frozen=True)
class GroupMatching(Penalty):
    """G (q_g - w_g)^2 at every token of an answer, so that its mean over answers is a sum over the group: DMPO
    (arXiv 2605.19461).

        q = softmax over the group of each answer's mean log pi,    w = softmax over the group of r / temperature

    Answers without tokens do not count, in G neither.
    """

    name: ClassVar[str] = "group_matching"
    coefficient: float = non_negative(1.0, called="the coefficient of DMPO")
    temperature: float = positive(0.1)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        mean = masked_mean(scores.log_probs, mask, axis=-1)
        tilt = less_largest_of_answered(rollouts.rewards, rollouts) / self.temperature
        found, wanted = (jnp.exp(log_softmax_of_answered(values, rollouts)) for values in (mean, tilt))
        cost = (found - wanted) ** 2
        metrics = {"group_matching": (cost.sum(), jnp.float32(len(cost)))}
        answers = rollouts.answered.sum(axis=-1, keepdims=True)
        return jnp.broadcast_to((answers * cost)[..., None], mask.shape), metrics


def dmpo(coefficient: float = 1.0, temperature: float = 0.1, standardise: bool = True, clip: Clip = 0.2) -> Objective:
    """DMPO (arXiv 2605.19461): GRPO + coefficient * sum (q - w)^2, q softmax of mean log pi, w of r / temperature.

    Both softmaxes are over the answers of the group, so that correct answers are made equally likely as strings; mass
    outside of the group is not asked about. The target counts answers, not outcomes: what is sampled twice
    is wanted twice. The gradient flows through q alone. Default values are our choice.

    Degenerate: groups with equal rewards get no advantage; their answers are still made equally likely.
    Evidence: second-hand (an audit of its equations).
    """
    return with_clip(
        clip,
        "sequence_mean",
        advantages=group_centred(standardise),
        penalties=(GroupMatching(coefficient, temperature),),
    )


@dataclasses.dataclass(frozen=True)
class ListwiseMatching(Surrogate):
    """-D(w, q) over the answers of a group: LPO (arXiv 2605.06139).

        w = softmax over the group of log mu + A / temperature,    q = softmax over the group of log pi

    of whole answers; A is the mean over an answer's tokens. `forward_kl` is the sum of w log(w / q), `reverse_kl` that
    of q log(q / w). The terms of an answer, times their number G, are the value of each of its tokens, so that the mean
    over answers of the mean over tokens is the divergence. On-policy, before the first step, the gradient by log pi is
    G (w - q), or G q (A - sum of q A) / temperature. Answers without tokens do not count.

    Groups of equal A get exactly zero. On-policy their divergence is zero but for rounding; off-policy it would only
    take back steps that other groups have asked for (our reading).
    """

    temperature: float = positive(1.0)
    divergence: Literal["forward_kl", "reverse_kl"] = "forward_kl"

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        mean = masked_mean(advantages, mask, axis=-1)
        tilt = less_largest_of_answered(mean, rollouts) / self.temperature
        wanted = log_softmax_of_answered(masked_sum(rollouts.behaviour_log_probs, mask, axis=-1) + tilt, rollouts)
        found = log_softmax_of_answered(masked_sum(scores.log_probs, mask, axis=-1), rollouts)
        one, other = (wanted, found) if self.divergence == "forward_kl" else (found, wanted)
        cost = jnp.where(equal_among_answered(mean, rollouts), 0.0, jnp.exp(one) * (one - other))
        metrics = {"listwise_divergence": (cost.sum(), jnp.float32(len(cost)))}
        answers = rollouts.answered.sum(axis=-1, keepdims=True)
        return jnp.broadcast_to(-(answers * cost)[..., None], mask.shape), metrics


def lpo(
    temperature: float = 1.0,
    divergence: Literal["forward_kl", "reverse_kl"] = "forward_kl",
    standardise: bool = True,
) -> Objective:
    """LPO (arXiv 2605.06139): loss D(w, q), w softmax of log mu + A / temperature, q of log pi, A GRPO's.

    Both softmaxes are over the answers of the group, log mu and log pi of whole answers, D a Kullback-Leibler
    divergence. The target keeps the ratio of answers with equal rewards, but the step towards it, G (w - q), is
    larger for the likelier of them, so that ties are lost, slower than by GRPO.

    Degenerate: groups with equal rewards get exactly zero, off-policy too.
    Evidence: our reading (abstract).
    """
    return Objective(
        advantages=group_centred(standardise),
        surrogate=ListwiseMatching(temperature, divergence),
        aggregation=SequenceMean(),
    )
