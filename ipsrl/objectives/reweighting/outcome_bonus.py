"""Advantages plus a bonus for outcomes or answers that are rare: `[P, G, T]` -> `[P, G, T]`."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative
from ipsrl.objectives.advantages.baselines import GroupMean
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, Sizes, masked_sum


@dataclasses.dataclass(frozen=True)
class OutcomeBonus(RolloutPart):
    """A_g + weight b_g: outcome-based exploration (arXiv 2509.06941).

        batch:     b = -(number of other answers of the group with the outcome) / G
        ucb:       b = min(1, N^-1/2), N the answers with this outcome to this prompt in all batches before
        ucb_mean:  the same, minus its mean over the group
        ucb_con:   the same, minus 1/2: an outcome seen more than four times costs

    Our reading: the bonus is added after the baseline, which would cancel every constant in it; the mean is that of
    the group; N counts batches before this one, so that b is 1 for a new outcome. The counts are a table of outcomes;
    answers without a valid outcome (-1) have their own column.
    """

    weight: float = non_negative(0.1)
    bonus: Literal["batch", "ucb", "ucb_mean", "ucb_con"] = "batch"

    def init(self, sizes: Sizes) -> Any:
        """N, `[num_prompts, num_outcomes + 1]`; () for `batch`."""
        if self.bonus == "batch":
            return ()
        if sizes.num_outcomes is None:
            raise ValueError("counts of outcomes are a table, but this environment does not number outcomes")
        return jnp.zeros((sizes.num_prompts, sizes.num_outcomes + 1))

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        if self.bonus == "batch":
            group = rollouts.outcome_id.shape[-1]
            bonus = (1.0 - same_outcome(rollouts.outcome_id).sum(axis=-1)) / group
        else:
            place = (rollouts.prompt_index[:, None], rollouts.outcome_id)  # -1 is the last column
            bonus = 1.0 / jnp.sqrt(jnp.maximum(state[place], 1.0))
            state = state.at[place].add(1.0)
            if self.bonus == "ucb_mean":
                bonus = GroupMean()(bonus, rollouts)
            elif self.bonus == "ucb_con":
                bonus -= 0.5
        return values + self.weight * bonus[..., None], state


@dataclasses.dataclass(frozen=True)
class SetInfluence(RolloutPart):
    """A_g + weight (D(S) - D(S without o_g)), D = 1 - the share of pairs that are alike: SetPO (arXiv 2602.01062).

    S is the group; its pairs are all G^2, an answer with itself included, and alike are answers with the same outcome.
    With n answers of the outcome and M alike pairs, the second term is weight ((M - 2 n + 1) / (G - 1)^2 - M / G^2),
    for large G weight 2/G (sum_c q_c^2 - q), q an outcome's share.
    """

    weight: float = non_negative(1.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        group = rollouts.outcome_id.shape[-1]
        # With G - n in the place of n and G^2 - M in that of M, a group of one outcome gets exactly zero.
        unlike = (~same_outcome(rollouts.outcome_id)).sum(axis=-1, dtype=jnp.float32)
        influence = (2.0 * unlike - (2.0 - 1.0 / group) * unlike.mean(axis=-1, keepdims=True)) / (group - 1.0) ** 2
        return values + self.weight * influence[..., None]


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
