"""Rewards corrected for a verifier that errs at known rates."""

import dataclasses

from jax import Array

from ipsrl.checking.fields import below_one
from ipsrl.objectives.advantages import GroupMeanStd, NoBaseline, group_centred
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class BackwardCorrection(RolloutPart):
    """(r - rho0) / J: its mean given the truth is the true reward (arXiv 2510.00915). Noisy if J is small.

    rho0 is the rate at which wrong answers are accepted, rho1 the rate at which correct ones are rejected; the observed
    reward has mean rho0 + J r given the true r in {0, 1}, with Youden's index J = 1 - rho0 - rho1. A baseline with the
    group's standard deviation undoes this, as it undoes `ForwardCorrection`. Rates are the same for all prompts.
    """

    false_positive_rate: float = below_one()
    false_negative_rate: float = below_one()

    def __post_init__(self):
        super().__post_init__()
        if self.false_positive_rate + self.false_negative_rate >= 1.0:
            raise ValueError(
                f"false_positive_rate {self.false_positive_rate} and false_negative_rate {self.false_negative_rate} "
                "leave no signal: their sum must be below 1"
            )

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        # Youden's J, how closely the verifier follows the truth.
        return (values - self.false_positive_rate) / (1.0 - self.false_positive_rate - self.false_negative_rate)


def backward_correction(
    false_positive_rate: float = 0.2,
    false_negative_rate: float = 0.3,
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Backward correction (arXiv 2510.00915): r~ = (r - rho0) / (1 - rho0 - rho1), A = r~ - group mean.

    rho0 is the share of wrong answers that the verifier accepts, rho1 the share of correct answers that it rejects:
    measure them, the defaults are only an example. The mean update is that without noise. `standardise=True` is GRPO,
    whatever the rates: the negative control.

    Degenerate: groups whose rewards are all equal get exactly zero.
    Evidence: paper; that standardising undoes it is derived.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(BackwardCorrection(false_positive_rate, false_negative_rate),),
        advantages=group_centred(standardise),
    )


@dataclasses.dataclass(frozen=True)
class ForwardCorrection(RolloutPart):
    """r - 1 + rho1: rho1 for an accepted answer, rho1 - 1 for a rejected one.

    Its mean is 0 for a correct answer and -J for a wrong one, so without a baseline the mean update is J times the
    noise-free one, for every rho0.
    """

    false_negative_rate: float = below_one()

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values - (1.0 - self.false_negative_rate)


def forward_correction(
    false_negative_rate: float = 0.3,
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Forward correction (arXiv 2510.00915): A = rho1 where the verifier accepts, rho1 - 1 where it rejects.

    rho1 is the share of correct answers that the verifier rejects: measure it, the default is only an example. The mean
    update is 1 - rho0 - rho1 times that without noise. There is no baseline, because the group's mean would undo the
    correction: `standardise=True`, GRPO's mean and standard deviation whatever the rate, is the negative control.

    Degenerate: no group gets zero, even if all rewards are equal; with `standardise` those get exactly zero.
    Evidence: paper; the weights, and that a baseline undoes them, are derived.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(ForwardCorrection(false_negative_rate),),
        advantages=GroupMeanStd() if standardise else NoBaseline(),
    )
