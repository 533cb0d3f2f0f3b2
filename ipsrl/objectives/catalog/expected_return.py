"""REINFORCE, GRPO and related objectives of the expected return."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, non_negative
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd, LeaveOneOut, NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.penalties import entropy_bonus
from ipsrl.objectives.surrogates import ClippedRatio, ClippedSequenceRatio, PolicyGradient
from ipsrl.structures import Rollouts


def reinforce(aggregation: AggregationName = "sequence_sum", entropy: float = 0.0) -> Objective:
    """REINFORCE (rule V of arXiv 2601.21669): A = r, no baseline; the sum over tokens of A log pi.

    J = E[r]. On a bandit the logits flow as dz_i/dt = p_i (r_i - mean return): the more likely of two equally good
    outcomes gains while any worse outcome keeps probability (arXiv 2601.21669, Theorem 3.1).

    Degenerate: only groups without any reward get zero, because there is no baseline.
    Evidence: paper, and derived (closed form of the expected update).
    Peers: OpenRLHF.
    """
    return Objective(
        advantages=NoBaseline(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
        penalties=entropy_bonus(entropy),
    )


def grpo(
    clip: Clip = 0.2,
    dual_clip: float | None = None,
    kl: float | KL = 0.0,
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GRPO (arXiv 2402.03300): A = (r - group mean) / group std, clipped ratio, mean over each answer's tokens.

    The paper adds 0.04 of the k3 divergence from a reference policy to the loss: `kl=0.04`. The default is no penalty,
    so that objectives are compared without one. `kl=k3(0.04, place=reward)` instead subtracts the divergence of the
    behaviour policy, summed over the answer, from the reward, before the group is normalised; `kl=k3(0.04, target=6)`,
    in nats per answer, adapts the coefficient from batch to batch (arXiv 1909.08593), in either place. The clip range
    is not in the paper: 0.2 is that of the libraries. `dual_clip` (arXiv 1912.09729) bounds the loss where A < 0;
    verl's is 3.

    The standard deviation is the population's unless `unbiased_std`, as in verl and TRL; both add an epsilon to it, we
    add none.

    Degenerate: groups with equal rewards get exactly zero, but count in the denominator of the aggregation.
    Evidence: paper and code (verl, TRL); the clip range is second-hand.
    Peers: TRL, verl, Tunix, OpenRLHF, EasyDeL.
    """
    subtracted = divergence(kl, other_place=True, can_adapt=True)
    return Objective(
        reward_shaping=subtracted.cost,
        advantages=GroupMeanStd(unbiased=unbiased_std),
        surrogate=ClippedRatio(*both_sides(clip), dual_clip=dual_clip),
        aggregation=aggregated_by(aggregation),
        penalties=subtracted.penalty + entropy_bonus(entropy),
    )


def dr_grpo(
    clip: Clip = 0.2,
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Dr. GRPO (arXiv 2503.20783): A = r - group mean, clipped ratio, token sums over the longest answer's length.

    Removes two biases of GRPO: the std, which inflates prompts that are nearly solved or nearly unsolved, and the
    length, by which long wrong answers are punished too little. RLOO's advantage is G / (G - 1) times this one.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: paper and code (TRL).
    Peers: TRL, verl, Tunix, OpenRLHF, EasyDeL.
    """
    return with_clip(clip, aggregation, advantages=GroupMean(), penalties=entropy_bonus(entropy))


def rloo(
    ratio: Literal["sequence", "token"] = "sequence",
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """RLOO (arXiv 2402.14740): A = r - mean reward of the others in the group; the answer is one action.

    `ratio="sequence"` clips the importance ratio of the whole answer, whose gradient is that of its summed
    log-probability (TRL); `ratio="token"` uses the advantage in PPO's token loss (verl), averaged by `aggregation`;
    with a sequence ratio it must be `sequence_mean`, because any other weighs answers by their length. The paper
    subtracts 0.03 of the summed k1 divergence from a reference from the reward, before the baseline: `kl=0.03`. The
    default is no penalty, as in GRPO. A number alone is k1 in the reward; in the loss, where k1 has zero mean gradient,
    take `kl=k2(0.03, place=loss)`.

    Degenerate: groups with equal rewards, after subtracting the divergence, get exactly zero.
    Evidence: paper and code (TRL, verl).
    Peers: TRL, verl, Tunix, OpenRLHF.
    """
    if ratio == "sequence" and aggregation != "sequence_mean":
        raise ValueError(
            f"aggregation={aggregation} would weigh answers by their length: ratio=sequence needs sequence_mean"
        )
    subtracted = divergence(kl, None, "reward", other_place=True)
    by_answer = ClippedSequenceRatio(*both_sides(clip), exponent="sum")
    return Objective(
        reward_shaping=subtracted.cost,
        advantages=LeaveOneOut(),
        surrogate=by_answer if ratio == "sequence" else ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
        penalties=subtracted.penalty,
    )


@dataclasses.dataclass(frozen=True)
class Overlong:
    """DAPO's punishment of long answers; a number alone is its weight.

    Attributes:
      weight: at the limit; 0 for none.
      limit: tokens; None is the longest possible answer.
      cache: tokens before the limit in which the punishment grows; None is a fifth of the limit.
      form: beyond the limit, verl's form continues to grow.
    """

    weight: float = 1.0
    limit: int | None = None
    cache: int | None = None
    form: Literal["paper", "verl"] = "paper"

    NAMED: ClassVar[dict[str, Callable[..., "Overlong"]]] = {}


def paper(weight: float = 1.0, limit: int | None = None, cache: int | None = None) -> Overlong:
    """The paper's form."""
    return Overlong(weight, limit, cache, "paper")


def verl(weight: float = 1.0, limit: int | None = None, cache: int | None = None) -> Overlong:
    """verl's form."""
    return Overlong(weight, limit, cache, "verl")


Overlong.NAMED.update({"paper": paper, "verl": verl})


@dataclasses.dataclass(frozen=True)
class OverlongPunishment(RolloutPart):
    """Soft punishment of long answers (DAPO, arXiv 2503.14476), before the rewards are normalised.

        r - weight * max(0, excess),    excess = (length - (limit - cache)) / cache

    0 up to limit - cache tokens, then linear, -weight at the limit. Beyond the limit the paper's form stays at -weight
    and verl's continues to fall; up to the limit they are the same. Values are relative to the group's least punished
    answer, so that small rewards are not rounded away behind what all have; advantages do not depend on a constant.

    Attributes:
      weight: of the punishment; 1 in the paper, where rewards are 1 and -1.
      limit: tokens; None is the longest possible answer, T. The paper has 20480.
      cache: tokens, at most the limit (else ValueError, for limit=None on the first batch); None is a fifth of the
        limit, like the paper's 4096.
      form: `paper` or `verl`.
    """

    weight: float = non_negative(1.0, called="the weight of the overlong punishment")
    limit: int | None = at_least(1, None, called="the overlong limit, in tokens,")
    cache: int | None = at_least(1, None, called="the overlong cache, in tokens,")
    form: Literal["paper", "verl"] = "paper"

    def __post_init__(self):
        super().__post_init__()
        if self.limit is not None:
            self._check_cache(self.limit)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        limit = rollouts.token_mask.shape[-1] if self.limit is None else self.limit
        self._check_cache(limit)
        cache = limit / 5 if self.cache is None else self.cache
        excess = (rollouts.token_mask.sum(axis=-1) - (limit - cache)) / cache
        punishment = self.weight * jnp.clip(excess, 0.0, 1.0 if self.form == "paper" else None)
        return values - (punishment - punishment.min(axis=-1, keepdims=True))

    def _check_cache(self, limit: int) -> None:
        if self.cache is not None and self.cache > limit:
            raise ValueError(f"the overlong cache of {self.cache} tokens is longer than the limit of {limit}")


@dataclasses.dataclass(frozen=True)
class WithoutTruncated(RolloutPart):
    """Overlong filtering: 0 for answers truncated at the horizon, after the group was normalised with them (DAPO).

        A_g N / (N of the other answers)  for answers that ended by themselves;  N: `tokens` or `answers` of the batch

    The factor removes truncated answers from the denominator, as masking their tokens would (arXiv 2503.14476).
    `counted` must name what the mean is over: all tokens of the batch, or its answers that have tokens.
    """

    counted: Literal["tokens", "answers"] = "tokens"

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mask = rollouts.token_mask if self.counted == "tokens" else rollouts.token_mask.any(axis=-1, keepdims=True)
        left = mask & ~rollouts.truncated[..., None]
        factor = mask.sum() / jnp.maximum(left.sum(), 1)
        return jnp.where(rollouts.truncated[..., None], 0.0, factor * values)


def dapo(
    clip: Clip = (0.2, 0.28),
    dual_clip: float | None = None,
    overlong: float | Overlong = 1.0,
    overlong_filter: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """DAPO (arXiv 2503.14476): A = GRPO's of r - overlong punishment, clip 0.2 / 0.28, mean over all tokens.

    The punishment grows from 0 at limit - cache tokens to the weight `overlong` at the limit; the group normalises it
    together with the reward. `overlong=paper(1.0, limit=20480, cache=4096)` is the paper's, where rewards are 1 and -1;
    by default the limit is the longest possible answer, and the cache a fifth of it. Beyond the limit `verl(...)`
    continues to grow. Use `overlong=0` in environments where length has another meaning, such as the distance to an
    outcome.
    `overlong_filter` gives truncated answers no advantage and removes them from the mean, over tokens or over answers.
    Dynamic sampling, by which the paper keeps only prompts with both right and wrong answers, is a batch filter of the
    loop.

    Degenerate: groups with equal rewards and equal punishments get exactly zero.
    Evidence: paper and code (verl, TRL); the signs of its rewards are second-hand.
    Peers: TRL, verl, Tunix, EasyDeL, Open-Instruct.
    """
    overlong = overlong if isinstance(overlong, Overlong) else Overlong(overlong)
    punishment = OverlongPunishment(overlong.weight, limit=overlong.limit, cache=overlong.cache, form=overlong.form)
    counted = "tokens" if aggregation == "token_mean" else "answers"
    return Objective(
        reward_shaping=(punishment,),
        advantages=GroupMeanStd(),
        reweighting=(WithoutTruncated(counted),) if overlong_filter else (),
        surrogate=ClippedRatio(*both_sides(clip), dual_clip=dual_clip),
        aggregation=aggregated_by(aggregation),
    )
