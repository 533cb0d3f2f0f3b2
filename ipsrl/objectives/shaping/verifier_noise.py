"""Rewards corrected for a verifier with random errors (arXiv 2510.00915): `[P, G]` -> `[P, G]`.

rho0 is the rate at which wrong answers are accepted, rho1 the rate at which correct ones are rejected; the observed
reward has mean rho0 + J r given the true r in {0, 1}, with Youden's index J = 1 - rho0 - rho1. Both corrections are
affine: a baseline with the group's standard deviation undoes them. Rates are the same for all prompts.
"""

import dataclasses

from jax import Array

from ipsrl.fields import below_one
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class BackwardCorrection(RolloutPart):
    """(r - rho0) / (1 - rho0 - rho1): its mean given the truth is the true reward. Noisy if J is small."""

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
        """J, how closely the verifier follows the truth."""
        return 1.0 - self.false_positive_rate - self.false_negative_rate

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return (values - self.false_positive_rate) / self.youden


@dataclasses.dataclass(frozen=True)
class ForwardCorrection(RolloutPart):
    """r - 1 + rho1: rho1 for an accepted answer, rho1 - 1 for a rejected one.

    Its mean is 0 for a correct answer and -J for a wrong one, so without a baseline the mean update is J times the
    noise-free one, for every rho0.
    """

    false_negative_rate: float = below_one()

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values - (1.0 - self.false_negative_rate)
