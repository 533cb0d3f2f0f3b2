"""Arguments of objectives that are more than a number or a word, such as `clip=(0.2, 0.28)` and `kl=k3(0.04)`, and the
parts that they stand for.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Penalty, RolloutPart
from ipsrl.objectives.penalties import (
    AdaptiveDivergenceCost,
    AdaptiveKullbackLeibler,
    DivergenceCost,
    KullbackLeibler,
    LossEstimator,
    RewardEstimator,
)
from ipsrl.objectives.surrogates import ClippedRatio

Clip = float | tuple[float, float]
"""Half-widths of a clip range, 1 - low to 1 + high: one number for both, or `(low, high)`."""


def both_sides(clip: Clip) -> tuple[float, float]:
    """`(low, high)`."""
    return clip if isinstance(clip, tuple) else (clip, clip)


def with_clip(clip: Clip, aggregation: AggregationName, **parts: Any) -> Objective:
    """An objective whose surrogate is PPO's clipped ratio; `parts` are its others, as `Objective` has them."""
    return Objective(surrogate=ClippedRatio(*both_sides(clip)), aggregation=aggregated_by(aggregation), **parts)


Place = Literal["loss", "reward"]


@dataclasses.dataclass(frozen=True)
class KL:
    """The divergence from a reference policy that an objective subtracts; a number alone is its coefficient.

    Attributes:
      coefficient: 0 for none.
      target: nats per answer, to which the coefficient is adapted from batch to batch (arXiv 1909.08593); None for a
        constant coefficient.
      place: `loss` adds the divergence to the loss, `reward` subtracts it, summed over the answer, from the reward;
        None is the place in the paper of the objective.
      estimator: None is that of the paper of the objective.
    """

    coefficient: float
    target: float | None = None
    place: Place | None = None
    estimator: LossEstimator | None = None

    NAMED: ClassVar[dict[str, Callable[..., "KL"]]] = {}


def k1(coefficient: float, target: float | None = None, place: Place | None = None) -> KL:
    """The estimator log(pi / pi_ref); unbiased in the reward, without gradient on average in the loss."""
    return KL(coefficient, target, place, "k1")


def k2(coefficient: float, target: float | None = None, place: Place | None = None) -> KL:
    """The estimator log(pi / pi_ref)^2 / 2, whose on-policy gradient is that of the divergence."""
    return KL(coefficient, target, place, "k2")


def k3(coefficient: float, target: float | None = None, place: Place | None = None) -> KL:
    """The estimator pi_ref / pi - 1 - log(pi_ref / pi), which is never negative."""
    return KL(coefficient, target, place, "k3")


def corrected_k3(coefficient: float, target: float | None = None) -> KL:
    """k3 in the loss, times the importance ratio, which makes its gradient that of the divergence."""
    return KL(coefficient, target, "loss", "corrected_k3")


KL.NAMED.update({made.__name__: made for made in (k1, k2, k3, corrected_k3)})


@dataclasses.dataclass(frozen=True)
class Divergence:
    """The parts that subtract a `KL`.

    Attributes:
      cost: of the reward; empty if it is in the loss.
      penalty: of the loss; empty if it is in the reward.
      coefficient, estimator: in the reward of single tokens, for parts of their own; 0 if it is in the loss.
    """

    cost: tuple[RolloutPart, ...] = ()
    penalty: tuple[Penalty, ...] = ()
    coefficient: float = 0.0
    estimator: RewardEstimator = "k1"


def divergence(
    kl: float | KL,
    estimator: LossEstimator | None = "k3",
    place: Place = "loss",
    other_place: bool = False,
    can_adapt: bool = False,
) -> Divergence:
    """The parts of an objective that subtract its argument `kl`.

    Args:
      estimator: of the objective, if `kl` names none; None is k1 in the reward, where it is unbiased, and k2 in the
        loss, whose on-policy gradient is that of the divergence (k1's has mean zero).
      place: of the objective, if `kl` names none.
      other_place: whether the objective can have the divergence in the other place.
      can_adapt: whether the objective can adapt the coefficient.

    Raises:
      ValueError: the objective cannot have such a divergence.
    """
    kl = kl if isinstance(kl, KL) else KL(kl)
    if kl.place not in (None, place) and not other_place:
        raise ValueError(f"this objective has its divergence in the {place}: leave out place={kl.place}")
    if kl.target is not None and not can_adapt:
        raise ValueError("this objective does not adapt the coefficient of its divergence: leave the target out")
    if not kl.coefficient:
        if kl != KL(kl.coefficient):
            raise ValueError("kl has the coefficient 0, so there is no divergence: give a coefficient, or kl=0 alone")
        return Divergence()
    named = kl.estimator or estimator
    if (kl.place or place) == "reward":
        if named == "corrected_k3":
            raise ValueError("corrected_k3 corrects a gradient, but rewards have no gradient: use k1, k2 or k3")
        named = named or "k1"
        cost = DivergenceCost(kl.coefficient, named)
        if kl.target is not None:
            cost = AdaptiveDivergenceCost(kl.coefficient, named, kl.target)
        return Divergence(cost=(cost,), coefficient=kl.coefficient, estimator=named)
    named = named or "k2"
    if kl.target is not None:
        return Divergence(penalty=(AdaptiveKullbackLeibler(kl.coefficient, named, kl.target),))
    return Divergence(penalty=(KullbackLeibler(kl.coefficient, named),))
