"""Objectives that favour correct answers which the policy rarely gives, by its probability of the whole answer.

Correct answers are those of `Rollouts.right`.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, probability
from ipsrl.objectives.advantages import group_centred
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, divergence, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.ties import rounding
from ipsrl.structures import Rollouts, masked_mean, masked_sum


@dataclasses.dataclass(frozen=True)
class Unlikeliness(RolloutPart):
    """Unlikeliness reward: the more likely an answer within its group, the less it earns (arXiv 2506.02355).

        r~_g = r_g (1 - beta rank_g / G)

    rank orders the length-averaged behaviour log-probabilities, 0 = least likely; ties, up to rounding, share the mean
    of their ranks.
    """

    beta: float = probability(0.25)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        likelihood = masked_mean(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        behind = likelihood[:, :, None] - likelihood[:, None, :]
        tied = jnp.abs(behind) <= rounding(likelihood)[..., None]
        rank = ((behind > 0) & ~tied).sum(axis=-1) + (tied.sum(axis=-1) - 1) / 2
        return values * (1.0 - self.beta * rank / values.shape[-1])


def unlikeliness(
    beta: float = 0.25,
    standardise: bool = True,
    kl: float = 0.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Unlikeliness reward (arXiv 2506.02355): r~ = r (1 - beta rank / G), rank 0 least likely of its group; then GRPO.

    Ranks order the length-averaged behaviour log-probabilities; ties share the mean of their ranks, so the order within
    the group does not matter (our reading). The paper uses G = 32, two epochs on each batch and 0.1 of the k3
    divergence from a reference: `kl=0.1`. In a group that is all correct, the standard deviation scales small
    differences up to full-size advantages.

    Degenerate: groups without reward get exactly zero; equal rewards do not silence a group.
    Evidence: code.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(Unlikeliness(beta),),
        advantages=group_centred(standardise),
        penalties=divergence(kl).penalty,
    )


@dataclasses.dataclass(frozen=True)
class UniformCorrect(RolloutPart):
    """UCPO: moves advantages of correct answers towards the less likely of them (arXiv 2605.00365).

        A~_g = A_g ((1 - tau) + tau n (1/q_g) / sum_j 1/q_j)    for the n correct answers;    A_g for the others
        q = softmax over the correct answers of their length-averaged behaviour log-probabilities

    The weights of the correct answers have mean 1, so equal advantages keep their sum.
    """

    tau: float = probability(0.2)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        correct = rollouts.right
        # (1/q) / sum(1/q) is the softmax of the negative log-probabilities.
        mean = masked_mean(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        share = jax.nn.softmax(-mean, axis=-1, where=correct)
        weight = 1.0 + self.tau * (correct.sum(axis=-1, keepdims=True) * share - 1.0)
        return values * jnp.where(correct, weight, 1.0)[..., None]


def ucpo(
    tau: float = 0.2,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """UCPO (arXiv 2605.00365): GRPO; A of n correct answers times 1 - tau + tau n (1/q) / sum 1/q, q their likelihoods.

    q is the softmax, over the correct answers, of their length-averaged log-probabilities under the behaviour policy.
    The weights have mean 1. The closest peer of IPS: it uses the model's probability instead of the frequency.

    Degenerate: groups whose rewards are all equal get exactly zero.
    Evidence: code.
    """
    return with_clip(clip, aggregation, advantages=group_centred(standardise), reweighting=(UniformCorrect(tau),))


@dataclasses.dataclass(frozen=True)
class DifferentialSmoothing(RolloutPart):
    """A - positive log mu for correct answers, A + negative log mu for the others (arXiv 2511.19942).

    mu is the behaviour policy's probability of the whole answer. Both terms are added after the baseline: unlikely
    correct answers gain most, unlikely wrong ones lose most. The mean update adds the gradient of positive S(correct) -
    negative S(wrong), S(set) = sum p (1 - log p) over the answers of the set.
    """

    positive: float = non_negative(0.1)
    negative: float = non_negative(0.1)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_probability = masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        weight = jnp.where(rollouts.right, -self.positive, self.negative)
        return values + (weight * log_probability)[..., None]


def differential_smoothing(
    positive: float = 0.1,
    negative: float = 0.1,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """DS-GRPO (arXiv 2511.19942): A = GRPO's - positive log mu(answer) if correct, + negative log mu if wrong.

    An entropy of the correct answers alone: once wrong ones are rare GRPO's part is zero, and correct answers become
    equally likely, as strings: an outcome is then as likely as it has ways to be written. Until then GRPO's part, if it
    is the larger one, goes on to favour the likelier of them. log mu is the sum over the tokens, so that long answers
    need smaller weights. `standardise=False` subtracts the group's mean only. Clip, aggregation and the default weights
    are our choice.

    Degenerate: no group gets zero, even if all rewards are equal.
    Evidence: second-hand (Equation 6, in a re-implementation); the entropy is derived.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=group_centred(standardise),
        reweighting=(DifferentialSmoothing(positive, negative),),
    )
