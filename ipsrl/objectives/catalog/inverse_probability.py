"""Inverse probability scaling (arXiv 2601.21669) and its variants."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Literal

from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, divergence, with_clip
from ipsrl.objectives.objective import Objective, RolloutPart
from ipsrl.objectives.penalties.entropy_bonus import entropy_bonus
from ipsrl.objectives.shaping.inverse_scaling import (
    InverseFrequency,
    InverseMovingFrequency,
    InverseProbability,
    InverseProbabilityLearned,
)
from ipsrl.objectives.surrogates.ratio import PolicyGradient


@dataclasses.dataclass(frozen=True)
class Probability:
    """How the probability of an outcome is estimated.

    Attributes:
      scale: (alpha, floor, effective share) -> the part that scales rewards.
      has_floor: whether a floor means something.
      advantage_cap: bound of |A|; None for none.
    """

    scale: Callable[[float, float, float], RolloutPart]
    has_floor: bool = True
    advantage_cap: float | None = None

    NAMED: ClassVar[dict[str, Callable[..., "Probability"]]] = {}


def counts(pseudo_count: float = 0.0) -> Probability:
    """phat = (n + pseudo_count) / (G + pseudo_count), n the outcome's count in the group; at least the floor.

    The paper has no pseudo-count; a positive one narrows the range of the weights (add-lambda).
    """
    return Probability(lambda alpha, floor, share: InverseFrequency(alpha, floor, pseudo_count, effective_share=share))


def offset() -> Probability:
    """`counts` with pseudo_count = (alpha - 1) / 2, which removes the bias of order 1/G."""
    return Probability(
        lambda alpha, floor, share: InverseFrequency(alpha, floor, (alpha - 1.0) / 2.0, effective_share=share)
    )


def ema(rate: float = 0.1) -> Probability:
    """pbar <- (1 - rate) pbar + rate phat from batch to batch, a table of outcomes; at least the floor."""
    return Probability(lambda alpha, floor, share: InverseMovingFrequency(alpha, floor, rate, effective_share=share))


def exact(
    backward: Literal["uniform", "learned", "none"] = "uniform",
    decay: float = 0.99,
    log_ratio_cap: float = 20.0,
    advantage_cap: float = 10.0,
) -> Probability:
    """The policy's trajectory probability divided by a backward probability; rewards are divided by a running mean.

    The backward probability is the environment's `uniform` one, or one `learned` by maximum likelihood on earlier
    batches. With `none` it is 1: each trajectory is an outcome of its own, as the answers of a text may be. `decay` is
    that of the running mean (and of the learned counts), `log_ratio_cap` bounds the logarithm of the quotient,
    `advantage_cap` bounds |A| (our reading).
    """

    def scale(alpha: float, floor: float, share: float) -> RolloutPart:
        del floor
        if backward == "learned":
            return InverseProbabilityLearned(alpha, decay, log_ratio_cap, effective_share=share)
        return InverseProbability(alpha, decay, log_ratio_cap, backward == "none", effective_share=share)

    return Probability(scale, False, advantage_cap)


Probability.NAMED.update({made.__name__: made for made in (counts, offset, ema, exact)})


@dataclasses.dataclass(frozen=True)
class Exponent:
    """An exponent that is lowered in each group until the weights have an effective sample size.

    Attributes:
      share: of the group, that (sum w)^2 / sum w^2 has to reach (our reading).
      at_most: alpha where the weights reach it anyway.
    """

    share: float
    at_most: float = 1.0

    NAMED: ClassVar[dict[str, Callable[..., "Exponent"]]] = {}


Exponent.NAMED["effective"] = Exponent


def ips_reinforce(
    alpha: float | Exponent = 1.0,
    floor: float = 0.0,
    probability: Probability | Literal["counts"] = "counts",
    kl: float | KL = 0.0,
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """IPS-REINFORCE (arXiv 2601.21669, Theorem 4.1): A = r / p(outcome)^alpha: rule V on r~.

    The ideal flow (dz_i/dt = r_i - p_i sum(r) at alpha = 1) ends at p proportional to r^(1/alpha). `probability` is the
    estimate of p: `counts` in the group (the paper's), `offset`, `ema` or `exact`, each with arguments of its own, as
    in `probability=exact(backward=learned)`; counts are at least `floor`. `alpha=effective(0.5)` lowers alpha in each
    group until the effective sample size of the weights is that share of it (our reading).

    Rewards must not be negative: counts would push the rarest mistakes down most, and `exact` ignores them. `kl` pulls
    the policy to the reference: with the estimator k2, by KL(policy || reference) on average, no outcome dies. The
    paper's weight is not in our sources; the default is none.

    Degenerate: groups without reward get zero.
    Evidence: paper (counts, floor); derived (offset, ema, pseudo_count); code (exact); our reading (effective).
    """
    shaping, limit = _inverse(probability, alpha, floor)
    return Objective(
        reward_shaping=(shaping,),
        advantages=NoBaseline(limit=limit),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
        penalties=divergence(kl).penalty,
    )


def ips_grpo(
    alpha: float | Exponent = 1.0,
    floor: float = 0.0,
    probability: Probability | Literal["counts"] = "counts",
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """IPS-GRPO (arXiv 2601.21669, Algorithm 1): r~ = r / max(phat, floor)^alpha, then GRPO: rule N on r~.

    A = (r~ - group mean) / group std. The paper's headline is floor 0.2 at group size 16; a floor up to 1/G has no
    effect. `alpha` and `probability`: see `ips_reinforce`; the std removes any common scale, so with `exact` the
    running mean matters only where its `log_ratio_cap` acts.

    Degenerate: groups whose scaled rewards are all equal get zero: one outcome, or no reward.
    Evidence: paper (counts, floor); derived (offset, ema, pseudo_count); code (exact); our reading (effective).
    """
    shaping, limit = _inverse(probability, alpha, floor)
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(shaping,),
        advantages=GroupMeanStd(unbiased=unbiased_std, limit=limit),
        penalties=divergence(kl).penalty + entropy_bonus(entropy),
    )


def ips_dr_grpo(
    alpha: float | Exponent = 1.0,
    floor: float = 0.0,
    probability: Probability | Literal["counts"] = "counts",
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """IPS with Dr. GRPO (after arXiv 2601.21669): r~ = r / max(phat, floor)^alpha, A = r~ - group mean: rule B on r~.

    At alpha = 1 its mean field with group size G is that of rule V with G - 1: the baseline costs one sample.
    `alpha` and `probability`: see `ips_reinforce`.

    Degenerate: groups whose scaled rewards are all equal get zero: one outcome, or no reward.
    Evidence: derived (rule B of the finite-group theory); the estimates of the probability as in `ips_reinforce`.
    """
    shaping, limit = _inverse(probability, alpha, floor)
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(shaping,),
        advantages=GroupMean(limit=limit),
        penalties=divergence(kl).penalty + entropy_bonus(entropy),
    )


def _inverse(probability: Probability | str, alpha: float | Exponent, floor: float) -> tuple[RolloutPart, float | None]:
    """The part that scales rewards, and its cap on |A|."""
    if isinstance(probability, str):
        if probability != "counts":
            raise ValueError(
                f"probability={probability!r} is not one: in Python give counts(), offset(), ema() or exact()"
            )
        probability = counts()
    if floor and not probability.has_floor:
        raise ValueError(f"floor={floor} belongs to probability=counts, offset or ema: leave it out")
    alpha = alpha if isinstance(alpha, Exponent) else Exponent(0.0, alpha)
    return probability.scale(alpha.at_most, floor, alpha.share), probability.advantage_cap
