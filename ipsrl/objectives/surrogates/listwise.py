"""A divergence between two distributions over the answers of a group, negated: `[P, G, T]` values to maximise."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import positive
from ipsrl.objectives.estimators.answered import (
    equal_among_answered,
    less_largest_of_answered,
    log_softmax_of_answered,
)
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


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
        length = jnp.maximum(mask.sum(axis=-1), 1)
        mean = masked_sum(jnp.broadcast_to(advantages, mask.shape), mask, axis=-1) / length
        tilt = less_largest_of_answered(mean, rollouts) / self.temperature
        wanted = log_softmax_of_answered(masked_sum(rollouts.behaviour_log_probs, mask, axis=-1) + tilt, rollouts)
        found = log_softmax_of_answered(masked_sum(scores.log_probs, mask, axis=-1), rollouts)
        one, other = (wanted, found) if self.divergence == "forward_kl" else (found, wanted)
        cost = jnp.where(equal_among_answered(mean, rollouts), 0.0, jnp.exp(one) * (one - other))
        metrics = {"listwise_divergence": (cost.sum(), jnp.float32(len(cost)))}
        answers = rollouts.answered.sum(axis=-1, keepdims=True)
        return jnp.broadcast_to(-(answers * cost)[..., None], mask.shape), metrics
