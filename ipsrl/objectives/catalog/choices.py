"""Arguments that many objectives share, and the parts they stand for."""

from typing import Literal

from ipsrl.objectives.advantages import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import SequenceMean, SequenceSum, TokenMean
from ipsrl.objectives.objective import Aggregation, Penalty, RolloutPart
from ipsrl.objectives.penalties import AdaptiveKullbackLeibler, EntropyBonus, KullbackLeibler, LossEstimator
from ipsrl.objectives.reference_divergence import RewardEstimator
from ipsrl.objectives.reward_costs import AdaptiveDivergenceCost, DivergenceCost

AggregationName = Literal["sequence_mean", "token_mean", "sequence_sum", "constant_length"]
Place = Literal["loss", "reward"]


def centred(standardise: bool) -> RolloutPart:
    """The group's mean as baseline; with `standardise`, its standard deviation as scale."""
    return GroupMeanStd() if standardise else GroupMean()


def aggregated_by(name: AggregationName) -> Aggregation:
    """The aggregation of that name; `constant_length` divides token sums by the longest possible answer."""
    return {
        "sequence_mean": SequenceMean(),
        "token_mean": TokenMean(),
        "sequence_sum": SequenceSum(),
        "constant_length": SequenceSum(length=None),
    }[name]


def divergence(
    coefficient: float,
    estimator: LossEstimator | None,
    place: Place = "loss",
    target: float | None = None,
    defaults: tuple[LossEstimator | None, Place] = ("k3", "loss"),
) -> tuple[Penalty, ...]:
    """The KL penalty in the loss; none where the coefficient is 0, or where its place is the reward.

    Args:
      coefficient, estimator, place, target: the arguments kl, kl_estimator, kl_in and kl_target of an objective; no
        estimator is k2, whose gradient on-policy is that of the divergence, where k1's is nothing on average.
      defaults: what estimator and place are where the objective is not told.

    Raises:
      ValueError: the coefficient is 0, and something else is not as where nothing is told.
    """
    if not coefficient:
        told = {"kl_estimator": (estimator, defaults[0]), "kl_in": (place, defaults[1]), "kl_target": (target, None)}
        for name, (value, default) in told.items():
            if value != default:
                raise ValueError(f"{name}={value} is about the KL penalty, whose coefficient kl is 0: give kl as well")
    if place == "reward" or not coefficient:
        return ()
    estimator = "k2" if estimator is None else estimator
    if target is not None:
        return (AdaptiveKullbackLeibler(coefficient, estimator, target),)
    return (KullbackLeibler(coefficient, estimator),)


def divergence_cost(
    coefficient: float, estimator: LossEstimator | None, place: Place = "reward", target: float | None = None
) -> tuple[RolloutPart, ...]:
    """KL taken from the reward of the whole answer; none where the coefficient is 0, or where its place is the loss."""
    if place == "loss" or not coefficient:
        return ()
    if target is not None:
        return (AdaptiveDivergenceCost(coefficient, for_rewards(estimator), target),)
    return (DivergenceCost(coefficient, for_rewards(estimator)),)


def for_rewards(estimator: LossEstimator | None) -> RewardEstimator:
    """The estimator itself, k1 where there is none: the one whose expected update is that of the divergence.

    Raises:
      ValueError: it is one of those that correct the gradient of a loss.
    """
    if estimator == "corrected_k3":
        raise ValueError("kl_estimator=corrected_k3 corrects a gradient, which rewards have none of: use k1, k2 or k3")
    return "k1" if estimator is None else estimator


def entropy_bonus(coefficient: float) -> tuple[Penalty, ...]:
    """The entropy bonus; none where the coefficient is 0."""
    return (EntropyBonus(coefficient),) if coefficient else ()
