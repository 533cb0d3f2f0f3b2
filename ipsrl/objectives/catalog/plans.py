"""Objectives with a separate weight for tokens that plan, or that choose how to answer."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative
from ipsrl.objectives.advantages import group_centred
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence, with_clip
from ipsrl.objectives.estimators.ranks import largest_of_rows, random_order
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.objectives.penalties import entropy_bonus
from ipsrl.objectives.surrogates import ClippedRatio
from ipsrl.structures import Metrics, PolicyScores, Rollouts, control_token

Planned = Literal["planning_mask", "high_entropy", "random", "first"]


def planned_tokens(rollouts: Rollouts, planned: Planned) -> Array:
    """`[P, G, T]` bool, the planning tokens, or a control with as many tokens in each answer.

    `planning_mask` comes from the environment. As controls with the same number of tokens in each answer,
    `high_entropy` takes the tokens of highest behaviour entropy (the earlier of ties) and `random` takes random tokens.
    `first` is the `control_token`, where the policy chose it.
    """
    mask = rollouts.token_mask
    if planned == "first":
        return mask & control_token(mask)
    planning = mask & rollouts.planning_mask
    if planned == "planning_mask":
        return planning
    drawn = planned == "random"
    score = random_order(rollouts.keys, mask.shape[1:]) if drawn else rollouts.behaviour_entropy
    return largest_of_rows(score, mask, planning.sum(axis=-1))


@dataclasses.dataclass(frozen=True)
class PlanningBonus(RolloutPart):
    """A + alpha |A| on planning tokens, A on the others (HICRA, arXiv 2509.03646).

    The formula multiplies the advantage of a good answer's plan by 1 + alpha, that of a failed plan by 1 - alpha. So
    planning tokens gain alpha mean |A| whatever their result: compare with `planned="random"`, which has the same count
    and the same advantages. One summary of the paper says that failed plans are punished more; `failures` offers both.

    Attributes:
      alpha: weight of the bonus.
      planned: which tokens, see `planned_tokens`.
      failures: negative advantages of these tokens are `eased`, times 1 - alpha (the formula); `kept`; or `sharpened`,
        times 1 + alpha.
    """

    alpha: float = non_negative(0.2)
    planned: Planned = "planning_mask"
    failures: Literal["eased", "kept", "sharpened"] = "eased"

    @property
    def needs(self) -> frozenset[str]:
        if self.planned == "first":
            return frozenset()
        return frozenset({"planning_mask", "keys"} if self.planned == "random" else {"planning_mask"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        sign = {"eased": -1.0, "kept": 0.0, "sharpened": 1.0}[self.failures]
        bonus = self.alpha * jnp.where(values < 0, sign * values, values)
        return values + jnp.where(planned_tokens(rollouts, self.planned), bonus, 0.0)


def hicra(
    alpha: float = 0.2,
    planned: Planned = "planning_mask",
    failures: Literal["eased", "kept", "sharpened"] = "eased",
    standardise: bool = False,
    clip: Clip = (0.2, 0.28),
    entropy: float = 0.0,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """HICRA (arXiv 2509.03646): A = r - group mean, plus alpha |A| on planning tokens; clip 0.2 / 0.28.

    The environment marks the planning tokens. `planned="high_entropy"`, `"random"` and `"first"` are controls, the
    first two with as many tokens in each answer, hence with the same advantages; `entropy` is the paper's fourth
    control. `failures` sets the treatment of planning tokens with A < 0: the formula eases them, one summary
    contradicts it.

    Degenerate: groups of equal rewards get zero.
    Evidence: second-hand (two sources and a port agree on the formula); clip values and aggregation are our reading.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=group_centred(standardise),
        reweighting=(PlanningBonus(alpha, planned, failures),),
        penalties=entropy_bonus(entropy),
    )


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


def degrpo(
    alpha: float = 0.001,
    response: Literal["sequence_mean", "token_mean"] = "sequence_mean",
    standardise: bool = False,
    clip: Clip = 0.2,
    kl: float | KL = 0.001,
) -> Objective:
    """DeGRPO (arXiv 2505.13379): A = r - group mean; alpha times the first token's loss + the rest's mean.

    Thinkless: the first token chooses between a short and a long answer; alpha sets how fast that choice converges
    relative to the skill of answering, independent of length. `response`: the mean over the later tokens of each answer
    (paper) or over those of the batch (code). Modes need no names: the first token is the choice, unless dictated.
    `kl` is the paper's 0.001.

    Degenerate: groups of equal rewards get zero, except the KL penalty; an answer of one token has no response part.
    Evidence: paper and code (VainF/Thinkless); that the KL penalty does not split off the first token is the code's.
    """
    return Objective(
        advantages=group_centred(standardise),
        surrogate=ControlAndResponse(ClippedRatio(*both_sides(clip)), alpha, response),
        aggregation=aggregated_by(response),
        penalties=divergence(kl).penalty,
    )
