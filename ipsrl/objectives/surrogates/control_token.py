"""A token that chooses how to answer, weighted separately from the answer itself."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.objectives.surrogates.ratio import ClippedRatio
from ipsrl.structures import PolicyScores, Rollouts, control_token


@dataclasses.dataclass(frozen=True)
class ControlAndResponse(Surrogate):
    """The values L of a `clip`ped ratio, with separate weights for the control token (DeGRPO, arXiv 2505.13379).

        response = sequence_mean:  (1/G) sum_i [ alpha L_i0 + (1/T_i) sum_(t >= 1) L_it ]                    the paper
        response = token_mean:     (1/N) sum_i alpha L_i0 + sum_i sum_(t >= 1) L_it / sum_i T_i       the released code

    L_i0 is that of the `control_token`, and 0 for an answer whose mode is dictated; the T_i others count that the
    policy chose. With these weights the aggregation of the same name gives the numbers above; penalties are not
    affected. G, N and sum T_i are those of the whole mini-batch. An answer without other tokens has no response part.

    Attributes:
      clip: surrogate that gives L.
      alpha: weight of the control token.
      response: average of the response part; the objective's aggregation must be the same.
    """

    clip: ClippedRatio
    alpha: float = non_negative(0.001)
    response: Literal["sequence_mean", "token_mean"] = "sequence_mean"

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, ...] | None:
        """Answers, tokens, and tokens of responses of the batch, `[]` each; None if each answer has its own weights."""
        if self.response == "sequence_mean":
            return None
        mask = rollouts.token_mask
        counted = mask.any(axis=-1), mask, mask & ~control_token(mask)
        return tuple(one.sum(dtype=jnp.float32) for one in counted)

    def evaluate(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        advantages: Array,
        parameters: dict,
        statistics: tuple[Array, ...] | None,
    ) -> tuple[Array, Metrics]:
        values, metrics = self.clip(scores, rollouts, advantages)
        mask, control = rollouts.token_mask, control_token(rollouts.token_mask)
        statistics = self.statistics(scores, rollouts, advantages) if statistics is None else statistics
        of_answer = 1.0, *(one.sum(axis=-1, keepdims=True) for one in (mask, mask & ~control))
        answers, tokens, others = of_answer if statistics is None else statistics
        weight_of_control = self.alpha * tokens / jnp.maximum(answers, 1.0)
        weight_of_others = tokens / jnp.maximum(others, 1.0)
        return values * jnp.where(control, weight_of_control, weight_of_others), metrics
