"""Expected return, compared with another baseline than the mean of the whole group."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import below_one, share
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.subgroups import normalised_among
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.surrogates import PolicyGradient
from ipsrl.objectives.ties import all_equal, rounding
from ipsrl.structures import Rollouts, Sizes, masked_sum


@dataclasses.dataclass(frozen=True)
class AboveGreedy(RolloutPart):
    """A_g = r_g - r(greedy answer): ReMax (arXiv 2310.10505); the baseline does not depend on the group.

    Groups whose rewards are all the greedy answer's get exactly zero.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"greedy_rewards"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        greedy = rollouts.greedy_rewards[:, None]
        silent = all_equal(jnp.concatenate([values, greedy], axis=-1))
        return jnp.where(silent[:, None], 0.0, values - greedy)


def remax(aggregation: AggregationName = "sequence_sum") -> Objective:
    """ReMax (arXiv 2310.10505): A = r - r(greedy answer), one for each prompt; the sum over tokens of A log pi.

    It needs the batch filter `greedy_answers`, which samples one answer more for each prompt. The baseline does not
    depend on what is sampled, so the mean update is that of REINFORCE; groups may have one answer. With rewards of 0
    and 1 only wrong answers teach where the greedy answer is right, and only right ones where it is wrong. verl puts
    the advantage in PPO's loss.

    Degenerate: groups whose rewards are all the greedy answer's get exactly zero; other groups of equal rewards do not.
    Evidence: code (verl) of the advantage; the loss is our reading.
    Peers: verl.
    """
    return Objective(
        advantages=AboveGreedy(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
    )


@dataclasses.dataclass(frozen=True)
class TrackedValue(RolloutPart):
    """A_g = (r_g - v) / std of r - v over the batch, minus its mean: SPO (arXiv 2509.13232).

        v = S / N,    N <- decay N + answers to the prompt in the batch,    S <- decay S + the sum of their rewards

    v is that of the batches before; a prompt that is met for the first time is compared with its own mean in this
    batch. Our reading: the paper adapts the decay to the divergence between the policies of two visits, and starts
    from answers sampled beforehand.
    """

    decay: float = below_one(0.9)

    def init(self, sizes: Sizes) -> Array:
        """N and S, `[num_prompts, 2]`."""
        return jnp.zeros((sizes.num_prompts, 2))

    def update_state(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        # All groups of a prompt share its value and compute the same new state.
        same_prompt = rollouts.same_prompt
        answers = same_prompt.sum(axis=-1) * values.shape[-1]
        here = jnp.stack([answers, masked_sum(values.sum(axis=-1), same_prompt, axis=-1)], axis=-1)
        before = state[rollouts.prompt_index]
        number, total = jnp.where(before[:, :1] > 0, before, here).T
        advantages = values - (total / number)[:, None]
        std = advantages.std()
        silent = (advantages.max() - advantages.min() <= rounding(values, axis=None)) | (std == 0)
        whitened = jnp.where(silent, 0.0, (advantages - advantages.mean()) / jnp.where(silent, 1.0, std))
        return whitened, state.at[rollouts.prompt_index].set(self.decay * before + here)


def spo(
    decay: float = 0.9,
    clip: Clip = (0.2, 0.28),
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """SPO (arXiv 2509.13232): A = r - v, whitened over the batch, v the prompt's mean reward in earlier batches.

    Earlier answers count `decay` times less with each batch that has the prompt; the paper lets the decay follow the
    divergence of the policy since then. A prompt's first batch is compared with its own mean, in the place of answers
    that the paper samples beforehand; on it, and so in the verdict, SPO is GRPO. Later v lags behind the policy, and
    the whitening takes off what all prompts of a batch gained. Groups may have one answer.

    Degenerate: a batch whose r - v are all equal gets exactly zero.
    Evidence: our reading (abstract); the clip is our choice.
    """
    return with_clip(clip, aggregation, advantages=TrackedValue(decay))


@dataclasses.dataclass(frozen=True)
class LengthWeightedMean(RolloutPart):
    """A_g = r_g - sum(length r) / sum(length) over the group: OPO (arXiv 2505.23585).

    The baseline of least variance if the squared norm of an answer's gradient is proportional to its number of tokens.
    """

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        length = rollouts.token_mask.sum(axis=-1)
        mean = (length * values).sum(axis=-1, keepdims=True) / jnp.maximum(length.sum(axis=-1, keepdims=True), 1)
        return jnp.where(all_equal(values)[:, None], 0.0, values - mean)


def opo(
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """OPO (arXiv 2505.23585): A = r - sum(length r) / sum(length) over the group.

    The baseline of least variance, if the squared norm of an answer's gradient grows as its length; it holds the answer
    itself. The paper takes one step on each batch, where ratios are 1; clip and mean over tokens are verl's.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (verl).
    Peers: verl.
    """
    return with_clip(clip, aggregation, advantages=LengthWeightedMean())


@dataclasses.dataclass(frozen=True)
class FilteredGroup(RolloutPart):
    """A_g = (r_g - mean) / std of the kept answers, 0 for the others: GFPO (arXiv 2508.09726).

    Kept are the k answers that are best by `by`, k = `kept` times their number, rounded up: the shortest ones, or those
    of the highest reward for each token. Answers as good as the last of them are kept as well; answers without tokens
    do not count. No epsilon is added; if the rewards of the kept answers are all equal, the group gets exactly zero.
    """

    kept: float = share(0.5, called="the share of answers that are kept")
    by: Literal["length", "reward_per_token"] = "length"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        answered, group = rollouts.answered, values.shape[-1]
        length = jnp.maximum(rollouts.token_mask.sum(axis=-1), 1).astype(values.dtype)
        merit = jnp.where(answered, -length if self.by == "length" else values / length, -jnp.inf)
        # By the number of answers. The offset undoes rounding in products such as 0.28 * 25, whose ceiling must be 7.
        kept = [max(math.ceil(self.kept * answers - 1e-6), 1) for answers in range(group + 1)]
        last = group - jnp.array(kept)[answered.sum(axis=-1, keepdims=True)]
        worst = jnp.take_along_axis(jnp.sort(merit, axis=-1), last, axis=-1)
        chosen = answered & (merit >= worst - rounding(jnp.where(answered, merit, 0.0)))
        return normalised_among(values, chosen[:, :, None] & chosen[:, None, :])


def gfpo(
    kept: float = 0.5,
    by: Literal["length", "reward_per_token"] = "length",
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """GFPO (arXiv 2508.09726): A = norm(r) within the k = kept G shortest answers of a group, 0 for the others.

    With `by=reward_per_token`, within those of the highest reward for each token. Answers as good as the last of the k
    are kept as well, so that answers of one length are treated alike: then GFPO by length is GRPO. Without a wrong
    answer among the kept ones, correct answers teach nothing.

    Degenerate: groups whose kept answers have equal rewards get exactly zero.
    Evidence: code (EasyDeL); that ties are kept is our reading.
    Peers: EasyDeL.
    """
    return with_clip(clip, aggregation, advantages=FilteredGroup(kept, by))
