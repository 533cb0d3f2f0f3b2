"""Costs of likelihoods that are not in proportion within a group: `[P, G, T]`, to minimise."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative, positive
from ipsrl.objectives.estimators.answered import less_largest_of_answered, log_softmax_of_answered
from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


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
        mean = masked_sum(scores.log_probs, mask, axis=-1) / jnp.maximum(mask.sum(axis=-1), 1)
        tilt = less_largest_of_answered(rollouts.rewards, rollouts) / self.temperature
        found, wanted = (jnp.exp(log_softmax_of_answered(values, rollouts)) for values in (mean, tilt))
        cost = (found - wanted) ** 2
        metrics = {"group_matching": (cost.sum(), jnp.float32(len(cost)))}
        answers = rollouts.answered.sum(axis=-1, keepdims=True)
        return jnp.broadcast_to((answers * cost)[..., None], mask.shape), metrics
