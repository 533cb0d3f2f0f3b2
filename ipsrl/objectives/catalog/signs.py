"""Objectives that treat correct and wrong answers by rules of their own."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, share
from ipsrl.objectives.advantages import GroupMeanStd, NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.importance import importance_ratio, log_importance_ratio
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.objectives.surrogates import ratio_metrics
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Metrics, PolicyScores, Rollouts


@dataclasses.dataclass(frozen=True)
class SignedReward(RolloutPart):
    """positive r - negative (1 - r): `positive` for a correct answer, -`negative` for a wrong one (arXiv 2506.01347).

    For other rewards than 0 and 1 linear in r, which is our reading. It is (positive + negative) r minus a constant, so
    that without a baseline the mean update is positive + negative times that of r, whatever their quotient: the weights
    change the noise, and what clips and lengths do. A baseline undoes them. `ForwardCorrection` has the weights rho1
    and 1 - rho1.
    """

    positive: float = non_negative(1.0, called="the weight of correct answers")
    negative: float = non_negative(1.0, called="the weight of wrong answers")

    def __post_init__(self):
        super().__post_init__()
        if self.positive == self.negative == 0.0:
            raise ValueError("the weights of correct and of wrong answers are both 0: one must be positive")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return self.positive * values - self.negative * (1.0 - values)


def w_reinforce(
    positive: float = 0.1,
    negative: float = 1.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """W-REINFORCE (arXiv 2506.01347): A = positive r - negative (1 - r), no baseline: 0.1 if correct, -1 if wrong.

    `positive=0` learns from wrong answers alone (NSR), `negative=0` from correct ones alone (PSR, A = r). Rewards
    between 0 and 1 are mixed linearly (our reading). On-policy the mean update is positive + negative times that of
    REINFORCE, as both differ by a constant alone: what NSR keeps that PSR loses comes from noise, clips, lengths, or
    steps that are too large to be told by their mean. Clip and mean over tokens are those of verl, on which the code is
    built.

    Degenerate: no group gets zero, even if all rewards are equal; with `negative=0` those without reward do.
    Evidence: code; that the mean update is REINFORCE's is derived.
    """
    return with_clip(clip, aggregation, reward_shaping=(SignedReward(positive, negative),), advantages=NoBaseline())


def ngrpo(
    best: float = 1.0,
    unbiased_std: bool = False,
    clip: Clip = (0.16, 0.24),
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """NGRPO (arXiv 2509.18851): A = GRPO's, mean and std of the group with one more reward of `best`, which no one got.

    Groups that are all wrong lose, all answers by the same, so that their mean update is not zero: what they show loses
    to what they do not. The advantages of a group add up to less than zero. The clip is narrower for A < 0 than for
    A > 0. The authors' standard deviation, of G + 1 rewards, is `unbiased_std`; their batches leave out groups whose
    rewards are all `best`.

    Degenerate: only groups whose rewards are all `best` get exactly zero.
    Evidence: code (the authors').
    """
    return with_clip(clip, aggregation, advantages=GroupMeanStd(unbiased=unbiased_std, virtual=best))


@dataclasses.dataclass(frozen=True)
class TaperedRatio(Surrogate):
    """w A log pi, w = 1 where A > 0 and min(rho, 1) elsewhere, a constant: TOPR (arXiv 2503.14286).

    Good answers are imitated however old they are; bad ones that the policy no longer gives are left alone. rho is the
    ratio `of` each token, or of the whole `answer`.
    """

    of: Literal["token", "answer"] = "token"

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_ratio = log_importance_ratio(scores, rollouts)
        if self.of == "answer":
            log_ratio = jnp.broadcast_to(log_ratio.sum(axis=-1, keepdims=True), log_ratio.shape)
        weight = jnp.where(advantages > 0, 1.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
        values = jax.lax.stop_gradient(weight) * advantages * scores.log_probs
        ratio = importance_ratio(scores, rollouts)
        return values, ratio_metrics(ratio, rollouts.token_mask, weight != ratio)


def topr(
    positive: float = 1.0,
    negative: float = 1.0,
    of: Literal["token", "answer"] = "token",
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """TOPR (arXiv 2503.14286): A log pi if correct, sg(min(rho, 1)) A log pi if wrong, A = 1 and -1.

    A = positive r - negative (1 - r), linear between (our reading). Correct answers of an older policy are imitated in
    full, wrong ones only as far as the policy still gives them. On-policy the mean update is positive + negative times
    that of REINFORCE; stale answers alone make a difference. rho is that `of` each token, as in ROLL, or of the whole
    answer (our reading of the paper).

    Degenerate: no group gets zero, even if all rewards are equal.
    Evidence: code (ROLL).
    Peers: ROLL.
    """
    return Objective(
        reward_shaping=(SignedReward(positive, negative),),
        advantages=NoBaseline(),
        surrogate=TaperedRatio(of),
        aggregation=aggregated_by(aggregation),
    )


@dataclasses.dataclass(frozen=True)
class GroupQuantileStd(RolloutPart):
    """A_g = (r_g - K-quantile of the group) / std of the group: QAE (arXiv 2509.22611).

    The quantile is the lowest reward of the group which at least a share K of its rewards do not exceed, so it is one
    of them. With rewards 0 and 1 it is 0 if the share of correct answers is at most 1 - K, and 1 above. The standard
    deviation is as in `GroupMeanStd`.
    """

    quantile: float = share(0.4)
    unbiased: bool = False
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        # The offset undoes rounding in products such as 0.55 * 20, whose ceiling must be 11.
        rank = max(math.ceil(self.quantile * values.shape[-1] - 1e-6), 1)
        above = values - jnp.sort(values, axis=-1)[:, rank - 1, None]
        std = values.std(axis=-1, keepdims=True, ddof=1 if self.unbiased else 0)
        silent = all_equal(values)[:, None] | (std == 0)
        return jnp.where(silent, 0.0, above / jnp.where(std == 0, 1.0, std))


def qae(
    quantile: float = 0.4,
    unbiased_std: bool = False,
    clip: Clip = (0.2, 0.28),
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """QAE (arXiv 2509.22611): A = (r - K-quantile of the group) / group std, K the `quantile`.

    With rewards 0 and 1 most answers get zero: while the share of correct answers is at most 1 - K only they count,
    with r / std (PSR, see `w_reinforce`), above it only wrong ones, with (r - 1) / std (NSR). Both have the direction
    of REINFORCE on average, so that equally good answers are lost as by GRPO. The default of K is our choice; clip,
    mean over tokens and the standard deviation are DAPO's, on which the paper builds (our reading).

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: second-hand (the abstract, whose two regimes say which quantile it is).
    """
    return with_clip(clip, aggregation, advantages=GroupQuantileStd(quantile, unbiased_std))
