"""Objectives with off-policy answers: an expert's, refinements after a critique, or those of earlier steps."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, positive
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, importance_ratio
from ipsrl.objectives.estimators.subgroups import normalised_among
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.objectives.penalties import entropy_bonus
from ipsrl.objectives.surrogates import ClippedRatio, clipped
from ipsrl.objectives.ties import all_equal, rounding
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_mean, masked_sum

GAMMA = 0.1


@dataclasses.dataclass(frozen=True)
class ShapedOffPolicy(Surrogate):
    """A p / (p + gamma) for tokens of `Rollouts.off_policy` answers, p = pi(token); the ratio rho for all others.

        off-policy:  A p / (p + gamma),  whose gradient is  A p gamma / (p + gamma)^2 grad log p
        on-policy:   min( rho A, clip(rho, 1 - low, 1 + high) A )

    The factor on grad log p is largest, 1/4, at p = gamma, and p / gamma for much smaller p. No behaviour probability
    is needed, unlike in an importance ratio. The shape is LUFFY's, as used in Critique-GRPO (arXiv 2506.03106).

    Attributes:
      gamma: None uses A p itself, the ratio to a behaviour probability of 1.
      low, high: of the clip; None for no bound on that side.
    """

    gamma: float | None = positive(GAMMA)
    low: float | None = None
    high: float | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"off_policy"})

    def __post_init__(self):
        super().__post_init__()
        if not ((self.low is None or 0.0 < self.low <= 1.0) and (self.high is None or self.high > 0.0)):
            raise ValueError(f"clip range is 1 - {self.low} to 1 + {self.high}: low must lie in (0, 1], high above 0")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask, elsewhere = rollouts.token_mask, rollouts.off_policy[..., None]
        log_probs = jnp.where(mask, scores.log_probs, 0.0)
        if self.gamma is None:
            shaped = jnp.exp(jnp.minimum(log_probs, LOG_RATIO_LIMIT))
        else:
            shaped = jax.nn.sigmoid(log_probs - math.log(self.gamma))
        low, high = (math.inf if bound is None else bound for bound in (self.low, self.high))
        own, metrics = clipped(importance_ratio(scores, rollouts), mask & ~elsewhere, advantages, low, high)
        refined = mask & elsewhere
        metrics["shaped_probability"] = (masked_sum(shaped, refined), refined.sum(dtype=jnp.float32))
        return jnp.where(elsewhere, shaped * advantages, own), metrics


Similarity = Literal["none", "outcome", "tokens"]


def shared_tokens(tokens: Array, mask: Array) -> Array:
    """Share of positions at which two answers of a group have the same token, `[P, G, T]` -> `[P, G, G]` in [0, 1].

    Positions count up to the end of the longer answer; two empty answers have share 0.
    """
    # Padding on one side equals no token of the other. One answer at a time: all pairs at once would be [P, G, G, T].
    real, others = jnp.where(mask, tokens, -1), jnp.where(mask, tokens, -2)

    def with_one(other):
        return (real == other[:, None]).sum(axis=-1, dtype=jnp.float32)

    equal = jax.lax.map(with_one, jnp.moveaxis(others, 1, 0))
    equal = jnp.moveaxis(equal, 0, -1)
    length = mask.sum(axis=-1)
    return equal / jnp.maximum(jnp.maximum(length[:, :, None], length[:, None, :]), 1)


@dataclasses.dataclass(frozen=True)
class DistinctPairs(RolloutPart):
    """Group mean and std over the answers that differ enough from one of the opposite sign; 0 for the others.

        d_ij = |r_i - r_j| (1 - sim_ij),  i above and j below the group's mean
        kept_i = [ mean_j or max_j d_ij >= tau ]
        A_i = kept_i (r_i - mean) / std * G / (number kept)

    DaGRPO (arXiv 2512.06337), reconstructed from its abstract and summaries: all of it is our reading. The last factor
    turns a mean over all answers into a mean over the kept ones. A reward at the group's mean has no opposite and is
    not kept.

    Attributes:
      tau: minimum distinctiveness of a kept answer, in units of reward.
      over: `mean` over the opposite answers, or `max` (then the most distinct opposite of a kept answer is kept too).
      similarity: `shared_tokens` (G comparisons for each token); `outcome`, 1 for the same outcome and 0 otherwise; or
        `none`, always 0.
      baseline: mean and std over the `kept` answers, or over the whole `group`.
    """

    tau: float = non_negative(0.5)
    over: Literal["mean", "max"] = "mean"
    similarity: Similarity = "tokens"
    baseline: Literal["kept", "group"] = "kept"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        kept = self.kept(values, rollouts)
        if self.baseline == "kept":
            advantages = normalised_among(values, kept[:, :, None] & kept[:, None, :])
        else:
            advantages = jnp.where(kept, GroupMeanStd()(values, rollouts), 0.0)
        return advantages * values.shape[-1] / jnp.maximum(kept.sum(axis=-1, keepdims=True), 1)

    def kept(self, values: Array, rollouts: Rollouts) -> Array:
        """`[P, G]` bool, True for answers that are distinct enough."""
        centred = GroupMean()(values, rollouts)
        side = jnp.where(jnp.abs(centred) <= rounding(values), 0.0, jnp.sign(centred))
        opposite = side[:, :, None] * side[:, None, :] < 0
        distance = jnp.abs(values[:, :, None] - values[:, None, :])
        if self.similarity == "outcome":
            distance *= ~same_outcome(rollouts.outcome_id)
        elif self.similarity == "tokens":
            distance *= 1.0 - shared_tokens(rollouts.tokens, rollouts.token_mask)
        if self.over == "max":
            distinctiveness = jnp.where(opposite, distance, 0.0).max(axis=-1)
        else:
            distinctiveness = masked_mean(distance, opposite, axis=-1)
        return opposite.any(axis=-1) & (distinctiveness >= self.tau - rounding(values))


def dagrpo(
    tau: float = 0.5,
    over: Literal["mean", "max"] = "mean",
    similarity: Similarity = "tokens",
    baseline: Literal["kept", "group"] = "kept",
    anchors: bool = False,
    gamma: float | None = GAMMA,
    clip: Clip = 0.2,
) -> Objective:
    """DaGRPO (arXiv 2512.06337): GRPO over answers with mean_j d_ij >= tau, d_ij = |r_i - r_j| * unlikeness of tokens.

    j are the answers on the other side of the group's mean; `over="max"` requires a single distinct j. The paper's
    scores are a language model's grades; ours are the rewards, and `similarity` (the share of tokens in common, or the
    same outcome) replaces the grader's judgement. Without it, rewards of 0 and 1 give GRPO. The loss is a mean over the
    kept answers of a group. `anchors` treats the answers marked `off_policy` as an expert's: they count in the group's
    mean and std, and their surrogate is A p / (p + gamma). Only hard prompts have one: the batch filter that adds them
    takes `at_most`, the highest mean reward of such a group.

    Degenerate: groups without a distinct pair get zero.
    Evidence: our reading (abstract and summaries; neither formula nor code was available).
    """
    if gamma != GAMMA and not anchors:
        raise ValueError("gamma belongs to anchors=True: leave it out")
    return Objective(
        advantages=DistinctPairs(tau, over, similarity, baseline),
        surrogate=ShapedOffPolicy(gamma, *both_sides(clip)) if anchors else ClippedRatio(*both_sides(clip)),
        aggregation=SequenceMean(),
    )


def critique_grpo(
    gamma: float | None = GAMMA,
    clip: Clip | None = None,
    entropy: float = 0.001,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Critique-GRPO (arXiv 2506.03106): A = r - group mean; rho A on own tokens, A pi / (pi + 0.1) on a refinement's.

    `off_policy` marks refinements: answers to the question and a critique, scored as answers to the question alone. One
    of them replaces an attempt in the group, so seven failed attempts with one good refinement get A = -1/8 each. There
    is no clip, which assumes few optimiser steps for each batch, and no KL penalty; `gamma=None` uses pi itself. The
    batch filter `off_policy` supplies the refinements.

    Degenerate: groups of equal rewards get zero, except the entropy bonus.
    Evidence: code (zhangxy-2019/critique-GRPO).
    """
    limits = (None, None) if clip is None else both_sides(clip)
    return Objective(
        advantages=GroupMean(),
        surrogate=ShapedOffPolicy(gamma, *limits),
        aggregation=aggregated_by(aggregation),
        penalties=entropy_bonus(entropy),
    )


@dataclasses.dataclass(frozen=True)
class LikelihoodOffPolicy(ClippedRatio):
    """A log p for tokens of `Rollouts.off_policy` answers, p = pi(token); that of `ClippedRatio` for all others."""

    needs: ClassVar[frozenset[str]] = frozenset({"off_policy"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask, elsewhere = rollouts.token_mask, rollouts.off_policy[..., None]
        ratio = importance_ratio(scores, rollouts)
        own, metrics = clipped(ratio, mask & ~elsewhere, advantages, self.low, self.high, self.dual_clip)
        return jnp.where(elsewhere, advantages * jnp.where(mask, scores.log_probs, 0.0), own), metrics


@dataclasses.dataclass(frozen=True)
class ModeReplay(RolloutPart):
    """Expected return on a group's own answers, and the same weight for each right one of earlier steps.

        own:        (r - mean) / mean of the own answers (`maxrl`), r - mean (`dr_grpo`),    times answers / own answers
        replayed:   beta / (prompts with a replayed answer * replayed answers of the prompt),    times answers

    Replayed are the answers of `Rollouts.off_policy` that are right; others from there get 0. Answers without
    tokens do not count, as in `SequenceMean`, so that a mean over all answers becomes one over own answers, and beta
    times one over prompts of the mean over the prompt's replayed answers. Own answers of equal rewards, and with
    `maxrl` those whose mean is not positive, get zero.
    """

    base: Literal["maxrl", "dr_grpo"] = "maxrl"
    beta: float = non_negative(0.1)
    needs: ClassVar[frozenset[str]] = frozenset({"off_policy"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        present, own = rollouts.answered, ~rollouts.off_policy
        replayed = present & ~own & rollouts.right
        mean = masked_mean(values, own, axis=-1)
        # Any own answer stands for the others, so that only own rewards are compared.
        first = jnp.take_along_axis(values, own.argmax(axis=-1)[:, None], axis=-1)
        silent = all_equal(jnp.where(own, values, first))
        scale = jnp.ones_like(mean)
        if self.base == "maxrl":
            earns = mean > rounding(jnp.where(own, values, 0.0))[:, 0]
            silent, scale = silent | ~earns, jnp.where(earns, mean, 1.0)
        fresh = jnp.where(own & ~silent[:, None], (values - mean[:, None]) / scale[:, None], 0.0)
        in_bank = replayed.sum(axis=-1)
        answers = present.sum()
        fresh *= answers / jnp.maximum((present & own).sum(), 1)
        again = self.beta * answers / jnp.maximum((in_bank > 0).sum() * in_bank, 1)
        return jnp.where(replayed, again[:, None], fresh)


def mode_replay(
    base: Literal["maxrl", "dr_grpo"] = "maxrl",
    beta: float = 0.1,
    clip: Clip = 0.2,
) -> Objective:
    """Re:Max (arXiv 2610.11064): MaxRL on own answers + beta mean over found modes of log pi(answer) / length.

    A mode is an outcome that was once right, and its answer the first such one: the batch filter `replayed_modes` keeps
    it, and adds it to every group of the prompt, marked `off_policy`. Marked answers do not count in the group's mean.
    `base=dr_grpo` is Re:Dr. On a bandit its mean update, for large groups, is p_k (r_k - E[r]) + beta (b_k - p_k), with
    b_k = 1/m for the m modes of the bank and 0 outside: training ends where p_k = beta / (m (beta + E[r] - r_k)), so
    every found mode keeps beta / (m (beta + E[r])) at least, and found modes of one reward end equally likely. As long
    as a right outcome is not found it pays beta p_k for those that are. Our readings: own answers have the mean over
    their tokens, the released code divides their sums by the longest possible answer; the replay is a mean over the
    prompts of the batch, there it is one prompt's bank in each step, and beta is multiplied by (G - 1) / G^2.

    Degenerate: own answers of equal rewards, or of no positive mean, get zero; replayed ones never do.
    Evidence: code (the authors' documentation of it); the dynamics are derived.
    """
    return Objective(
        advantages=ModeReplay(base, beta),
        surrogate=LikelihoodOffPolicy(*both_sides(clip)),
        aggregation=SequenceMean(),
    )
