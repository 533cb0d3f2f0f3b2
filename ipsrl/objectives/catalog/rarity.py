"""Objectives that pay for rare outcomes: by a weight of the advantage, or by a bonus that is added.

Correct answers are those of `Rollouts.right`.
"""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, probability
from ipsrl.objectives.advantages import GroupMean, group_centred
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.frequency import outcome_frequency, same_outcome
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.structures import Rollouts, Sizes


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


def uniqueness_aware(
    alpha: float = 1.0,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Uniqueness-aware RL (arXiv 2601.08763): A = norm(r) n^-alpha, n the answers alike, if correct; norm(r) if not.

    The paper sorts answers into clusters of strategies with a language model; here a cluster is an outcome. With
    rewards 0 and 1, and m the share of correct answers, a correct one is (m + (1 - m) n^-alpha) / std above a wrong
    one: partly expected return, and all of it once a prompt is solved, so that ties are lost as by GRPO. alpha lies
    between 0 (GRPO) and 1; the default is our choice.

    Degenerate: groups with equal rewards get exactly zero, even if they show several outcomes.
    Evidence: second-hand; that only correct answers are weighed is our reading, the share m is derived.
    """
    return with_clip(clip, aggregation, advantages=group_centred(standardise), reweighting=(InverseClusterSize(alpha),))


@dataclasses.dataclass(frozen=True)
class OutcomeEntropy(RolloutPart):
    """r + beta times a bonus for rare outcomes, by their frequencies in the group (arXiv 2604.27166).

        entropy:  - log phat(o_g)     gini:  1 - phat(o_g)

    With the policy's probabilities in the place of phat the mean update would be that of E[r] + beta H with Shannon's
    entropy, and of E[r] + beta/2 (1 - sum p^2) with Gini's (`TsallisEntropy`). phat(o_g) holds the answer itself, so
    the bonus of an outcome is at most beta log G, or beta (1 - 1/G), however rare it is.
    """

    beta: float = non_negative(0.1)
    form: Literal["entropy", "gini"] = "entropy"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        frequency = outcome_frequency(rollouts.outcome_id)
        return values + self.beta * (-jnp.log(frequency) if self.form == "entropy" else 1.0 - frequency)


def answer_entropy(
    beta: float = 0.1,
    form: Literal["entropy", "gini"] = "entropy",
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Answer-level entropy (arXiv 2604.27166): r~ = r - beta log phat, or with `form=gini` r + beta (1 - phat).

    The additive twin of IPS: with p in the place of phat its optimum is a softmax of r / beta over outcomes (entropy),
    or sparsemax (gini), so that outcomes with equal rewards become equally likely. A frequency in a group is never
    below 1/G, so an outcome whose reward is more than about beta log G below the best one dies (gini: beta). Our
    reading: phat is the outcome's frequency in the group; there is no standard deviation, which would change beta from
    prompt to prompt; beta.

    Degenerate: groups of one outcome with equal rewards get exactly zero; those of several outcomes do not.
    Evidence: second-hand.
    """
    return with_clip(
        clip, aggregation, reward_shaping=(OutcomeEntropy(beta, form),), advantages=group_centred(standardise)
    )


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


def outcome_exploration(
    weight: float = 0.1,
    bonus: Literal["batch", "ucb", "ucb_mean", "ucb_con"] = "batch",
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Outcome-based exploration (arXiv 2509.06941): A = norm(r) + weight b, b = -share of other answers alike (batch).

    `ucb` is b = min(1, N^-1/2), N how often the prompt had this outcome in earlier batches; `ucb_mean` subtracts the
    group's mean of it, `ucb_con` 1/2. See `OutcomeBonus` for what is our reading, which includes the default weight.
    Without the std, `batch` has the mean update of `tsallis(q=2, beta=weight/2)` on outcomes. In the reward, before the
    baseline, it would be `answer_entropy(form=gini)`, with (G-2)/G of that beta, since the baseline holds part of every
    bonus. The first batch of `ucb` has no effect on average, as all outcomes are new.

    Degenerate: groups with equal rewards do not get zero: their repeated outcomes lose.
    Evidence: second-hand; that the bonus is added to the advantage is our reading, Tsallis is derived.
    """
    return with_clip(
        clip, aggregation, advantages=group_centred(standardise), reweighting=(OutcomeBonus(weight, bonus),)
    )


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


def setpo(
    weight: float = 1.0,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """SetPO (arXiv 2602.01062): A = norm(r) + weight (D(S) - D(S without o)), S the group, D = 1 - pairs alike / G^2.

    The paper has any kernel of similarity; here two answers are alike if they have the same outcome. What an answer
    adds to the diversity of its group is, for large G, 2/G (sum_c q_c^2 - q), q the share of its outcome: a step uphill
    on Simpson's diversity, 1 - sum_c q_c^2. Wrong answers get it as well. The default weight is our choice.

    Degenerate: groups of one outcome with equal rewards get exactly zero; those of several outcomes do not.
    Evidence: second-hand; the kernel is our reading.
    """
    return with_clip(clip, aggregation, advantages=group_centred(standardise), reweighting=(SetInfluence(weight),))
