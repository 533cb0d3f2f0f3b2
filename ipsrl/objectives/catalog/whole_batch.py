"""REINFORCE and GRPO with a baseline or a scale from all answers or tokens of the batch."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, share
from ipsrl.objectives.advantages import GroupMean, NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, divergence, with_clip
from ipsrl.objectives.estimators.discounting import discounted_sums
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.penalties import RewardEstimator, token_divergence
from ipsrl.objectives.surrogates import PolicyGradient
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class ReturnToGo(RolloutPart):
    """Discounted future reward: each token's own return (REINFORCE++, arXiv 2501.03262).

        R_t = sum_{u >= t} gamma^(u - t) (r_u - kl KL_u)

    r_u is the incoming value if u is the last token that the policy chose, else 0. With `by_turn` it is what the
    environment pays at u, `step_rewards`, and the rest of the incoming value comes at that last token; our reading.
    u and t count dictated tokens as well. KL_u estimates KL(behaviour || reference) at one token and needs
    `reference_log_probs` unless `kl` is 0.
    """

    gamma: float = share(1.0)
    kl: float = non_negative(0.0, called="the coefficient of the KL penalty")
    estimator: RewardEstimator = "k1"
    by_turn: bool = False

    @property
    def needs(self) -> frozenset[str]:
        fields = {"reference_log_probs": self.kl, "step_rewards": self.by_turn}
        return frozenset(name for name, read in fields.items() if read)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mask = rollouts.token_mask
        places = jnp.arange(mask.shape[-1])
        tokens_left = jnp.where(mask, places, 0).max(axis=-1, keepdims=True) - places
        at_end, before = values, 0.0
        if self.by_turn:
            paid = jnp.where(mask, rollouts.step_rewards, 0.0)
            at_end = values - paid.sum(axis=-1, keepdims=True)
            before = discounted_sums(paid, self.gamma, reverse=True)
        returns = jnp.where(mask, self.gamma ** jnp.maximum(tokens_left, 0) * at_end, 0.0) + before
        if self.kl:
            cost = token_divergence(rollouts.behaviour_log_probs, rollouts, self.estimator)
            returns -= self.kl * discounted_sums(cost, self.gamma, reverse=True)
        return returns


@dataclasses.dataclass(frozen=True)
class WhitenedTokens(RolloutPart):
    """(A - mean) / std over all tokens of the batch (REINFORCE++, arXiv 2501.03262): long answers count more.

    A batch whose tokens all have the same advantage gets exactly zero. verl's standard deviation divides by the number
    of tokens minus one (`unbiased`); no epsilon is added.
    """

    unbiased: bool = False

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mask = rollouts.token_mask
        tokens = jnp.maximum(mask.sum(), 1)
        centred = jnp.where(mask, values - masked_sum(values, mask) / tokens, 0.0)
        std = jnp.sqrt((centred**2).sum() / jnp.maximum(tokens - self.unbiased, 1))
        highest = jnp.where(mask, values, -jnp.inf).max()
        silent = all_equal(jnp.where(mask, values, highest).reshape(1, -1))[0] | (std == 0)
        return jnp.where(silent, 0.0, centred / jnp.where(silent, 1.0, std))


def reinforce_plus_plus(
    gamma: float = 1.0,
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    by_turn: bool = False,
    unbiased_std: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """REINFORCE++ (arXiv 2501.03262): A = each token's return to go, whitened over all tokens of the batch.

    The reward is given at the last token, or with `by_turn` where the environment pays it (our reading); `kl` times
    the divergence from a reference is subtracted from each token's own reward, discounted by `gamma`. Groups are not
    compared: other prompts are the baseline, and long answers weigh more in it. `unbiased_std` is verl's convention;
    verl also adds 1e-8 to the variance, we add nothing. The paper's weight of the penalty is not in our sources; the
    default is none, as in GRPO. Its estimator is as for RLOO.

    Degenerate: a batch whose tokens all have the same return gets exactly zero; single groups are not checked.
    Evidence: paper and code (verl).
    Peers: verl.
    """
    subtracted = divergence(kl, None, "reward", other_place=True)
    return with_clip(
        clip,
        aggregation,
        advantages=NoBaseline(),
        reweighting=(
            ReturnToGo(gamma, subtracted.coefficient, subtracted.estimator, by_turn),
            WhitenedTokens(unbiased_std),
        ),
        penalties=subtracted.penalty,
    )


def reinforce_plus_plus_baseline(
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """REINFORCE++ with baseline (arXiv 2501.03262): A = r - group mean, whitened over all tokens of the batch.

    The mean of the whitening weighs answers by their length, so it need not be 0: groups with equal rewards then get
    its negative, scaled. KL, off by default, is in the loss; k2 is our reading of the paper's choice, whose weight is
    not in our sources. `unbiased_std` is as for `reinforce_plus_plus`.

    Degenerate: a batch in which every group has equal rewards gets exactly zero; one such group among others does not.
    Evidence: code (verl); KL is our reading.
    Peers: verl, OpenRLHF.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=GroupMean(),
        reweighting=(WhitenedTokens(unbiased_std),),
        penalties=divergence(kl, "k2").penalty,
    )


@dataclasses.dataclass(frozen=True)
class GroupMeanBatchStd(RolloutPart):
    """A_g = (r_g - mean of the group) / std of all rewards of the batch: Lite PPO (arXiv 2508.08221).

    The standard deviation is that of the uncentred rewards over all groups of the batch. `unbiased=True` divides by
    their number minus one. No epsilon is added.
    """

    unbiased: bool = False
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        centred = values - values.mean(axis=-1, keepdims=True)
        std = values.std(ddof=1 if self.unbiased else 0)
        degenerate = all_equal(values)[:, None] | (std == 0)
        return jnp.where(degenerate, 0.0, centred / jnp.where(std == 0, 1.0, std))


def lite_ppo(
    clip: Clip = 0.2,
    unbiased_std: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Lite PPO (arXiv 2508.08221): A = (r - group mean) / std of the batch's rewards, clip 0.2, mean over all tokens.

    The std is that of the uncentred rewards over the whole batch, which may be sharded over devices: nearly solved
    prompts are not inflated as by the group's own std. TRL's is `unbiased_std` and adds 1e-4; we add nothing.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: paper and code (TRL).
    Peers: TRL.
    """
    return with_clip(clip, aggregation, advantages=GroupMeanBatchStd(unbiased=unbiased_std))


@dataclasses.dataclass(frozen=True)
class GroupMeanByNonzero(RolloutPart):
    """A_g = (r_g - mean of the group) * answers of the batch / those whose reward is not 0: GPG (arXiv 2504.02546)."""

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return GroupMean()(values, rollouts) * values.size / jnp.maximum((values != 0).sum(), 1)


def gpg(aggregation: AggregationName = "token_mean") -> Objective:
    """GPG (arXiv 2504.02546): A = (r - group mean) B / (answers of the batch with r != 0), B all of them; A log pi.

    There is no importance ratio, and no standard deviation. The factor makes up for groups without signal; verl counts
    answers whose reward is 0 for it, so batches with few correct answers take larger steps. verl divides by a further
    constant, by default 1.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (verl).
    Peers: verl.
    """
    return Objective(
        advantages=GroupMeanByNonzero(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
    )
