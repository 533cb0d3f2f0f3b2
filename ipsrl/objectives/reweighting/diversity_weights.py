"""Parts that re-weight advantages in favour of rare correct answers: `[P, G, T]` -> `[P, G, T]`.

Correct answers are those of `Rollouts.right`.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, probability
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, masked_mean


@dataclasses.dataclass(frozen=True)
class FocalWeight(RolloutPart):
    """F-GRPO: A (1 - mu)^gamma, mu the group's share of correct answers (arXiv 2602.06717).

    A weight of the prompt, like the focal loss: all correct answers get the same. Zero if all are correct.
    """

    gamma: float = non_negative(1.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        wrong = (~rollouts.right).mean(axis=-1, dtype=jnp.float32)
        return values * wrong[:, None, None] ** self.gamma


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


@dataclasses.dataclass(frozen=True)
class InverseClusterSize(RolloutPart):
    """Uniqueness-aware RL: A_g n^-alpha for correct answers, n those of the group with its outcome (arXiv 2601.08763).

    The advantages of the others do not change, so the sum over a group is no longer zero.
    """

    alpha: float = probability(1.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        size = same_outcome(rollouts.outcome_id).sum(axis=-1, dtype=jnp.float32)
        return values * jnp.where(rollouts.right, size**-self.alpha, 1.0)[..., None]
