"""Builds the KL parts from the arguments kl, kl_estimator, kl_in and kl_target of many objectives."""

from typing import Literal

from ipsrl.objectives.estimators.reference_divergence import RewardEstimator
from ipsrl.objectives.objective import Penalty, RolloutPart
from ipsrl.objectives.penalties.kullback_leibler import AdaptiveKullbackLeibler, KullbackLeibler, LossEstimator
from ipsrl.objectives.shaping.reward_costs import AdaptiveDivergenceCost, DivergenceCost

Place = Literal["loss", "reward"]


def kl_penalty(
    coefficient: float,
    estimator: LossEstimator | None,
    place: Place = "loss",
    target: float | None = None,
    defaults: tuple[LossEstimator | None, Place] = ("k3", "loss"),
) -> tuple[Penalty, ...]:
    """The KL penalty in the loss; empty if the coefficient is 0 or its place is the reward.

    Args:
      coefficient, estimator, place, target: the arguments kl, kl_estimator, kl_in and kl_target of an objective. No
        estimator means k2, whose on-policy gradient is that of the divergence; k1's has mean zero.
      defaults: estimator and place of an objective that takes neither as an argument.

    Raises:
      ValueError: kl is 0 but another KL argument was given.
    """
    if not coefficient:
        given = {"kl_estimator": (estimator, defaults[0]), "kl_in": (place, defaults[1]), "kl_target": (target, None)}
        for name, (value, default) in given.items():
            if value != default:
                raise ValueError(f"{name}={value} is about the KL penalty, whose coefficient kl is 0: give kl as well")
    if place == "reward" or not coefficient:
        return ()
    estimator = "k2" if estimator is None else estimator
    if target is not None:
        return (AdaptiveKullbackLeibler(coefficient, estimator, target),)
    return (KullbackLeibler(coefficient, estimator),)


def kl_cost(
    coefficient: float, estimator: LossEstimator | None, place: Place = "reward", target: float | None = None
) -> tuple[RolloutPart, ...]:
    """KL subtracted from the reward of the whole answer; empty if the coefficient is 0 or its place is the loss."""
    if place == "loss" or not coefficient:
        return ()
    if target is not None:
        return (AdaptiveDivergenceCost(coefficient, estimator_for_rewards(estimator), target),)
    return (DivergenceCost(coefficient, estimator_for_rewards(estimator)),)


def estimator_for_rewards(estimator: LossEstimator | None) -> RewardEstimator:
    """`estimator`, or k1 for None: unbiased as a reward.

    Raises:
      ValueError: `estimator` is one that corrects the gradient of a loss.
    """
    if estimator == "corrected_k3":
        raise ValueError(
            "kl_estimator=corrected_k3 corrects a gradient, but rewards have no gradient: use k1, k2 or k3"
        )
    return "k1" if estimator is None else estimator
