"""A first token that chooses how to answer, weighted separately from the answer itself."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.objectives.surrogates.ratio import ClippedRatio
from ipsrl.structures import PolicyScores, Rollouts, first_action


@dataclasses.dataclass(frozen=True)
class ControlAndResponse(Surrogate):
    """The values L of a `clip`ped ratio, with separate weights for the first token (DeGRPO, arXiv 2505.13379).

        response = sequence_mean:  (1/G) sum_i [ alpha L_i0 + (1/T_i) sum_(t >= 1) L_it ]                    the paper
        response = token_mean:     (1/N) sum_i alpha L_i0 + sum_i sum_(t >= 1) L_it / sum_i T_i       the released code

    Both count tokens that the policy chose; T_i are those after its first. With these weights the aggregation of the
    same name gives the numbers above; penalties are not affected. N and sum T_i are those of the whole mini-batch. An
    answer without tokens after the first has no response part.

    Attributes:
      clip: surrogate that gives L.
      alpha: weight of the first token.
      response: average of the response part; the objective's aggregation must be the same.
    """

    clip: ClippedRatio
    alpha: float = non_negative(0.001)
    response: Literal["sequence_mean", "token_mean"] = "sequence_mean"

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Array] | None:
        """Answers and tokens of the batch, `[]` each; None if each answer has its own weights."""
        if self.response == "sequence_mean":
            return None
        mask = rollouts.token_mask
        return mask.any(axis=-1).sum(dtype=jnp.float32), mask.sum(dtype=jnp.float32)

    def evaluate(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        advantages: Array,
        parameters: dict,
        statistics: tuple[Array, Array] | None,
    ) -> tuple[Array, Metrics]:
        values, metrics = self.clip(scores, rollouts, advantages)
        mask = rollouts.token_mask
        statistics = self.statistics(scores, rollouts, advantages) if statistics is None else statistics
        answers, tokens = (1.0, mask.sum(axis=-1, keepdims=True)) if statistics is None else statistics
        control = self.alpha * tokens / jnp.maximum(answers, 1.0)
        response = tokens / jnp.maximum(tokens - answers, 1.0)
        return values * jnp.where(first_action(mask), control, response), metrics
