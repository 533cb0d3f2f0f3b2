"""Rewards corrected for a verifier that errs at random (arXiv 2510.00915): `[P, G]` -> `[P, G]`.

rho0 is the rate at which wrong answers are accepted, rho1 that at which correct ones are rejected; what is observed has
mean rho0 + J r given the true r in {0, 1}, with Youden's index J = 1 - rho0 - rho1. Both rules are affine: a baseline
and a standard deviation of the group undo them. Rates are the same for all prompts.
"""

import dataclasses

from jax import Array

from ipsrl.fields import below_one
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class BackwardCorrection(RolloutPart):
    """(r - rho0) / (1 - rho0 - rho1): its mean given the truth is the true reward. Noisy where J is small."""

    false_positive_rate: float = below_one()
    false_negative_rate: float = below_one()

    def __post_init__(self):
        super().__post_init__()
        if self.false_positive_rate + self.false_negative_rate >= 1.0:
            raise ValueError(
                f"false_positive_rate {self.false_positive_rate} and false_negative_rate {self.false_negative_rate} "
                "leave no signal: their sum must be below 1"
            )

    @property
    def youden(self) -> float:
        """J, how far the verifier's verdict still follows the truth."""
        return 1.0 - self.false_positive_rate - self.false_negative_rate

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return (values - self.false_positive_rate) / self.youden


@dataclasses.dataclass(frozen=True)
class ForwardCorrection(RolloutPart):
    """r - 1 + rho1: rho1 for an accepted answer, rho1 - 1 for a rejected one.

    Its mean is 0 given a correct answer and -J given a wrong one, so that without a baseline the mean update is J times
    the clean one, whatever rho0 is.
    """

    false_negative_rate: float = below_one()

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values - (1.0 - self.false_negative_rate)
