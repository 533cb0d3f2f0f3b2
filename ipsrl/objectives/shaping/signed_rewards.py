"""Rewards of correct and of wrong answers with weights of their own: `[P, G]` -> `[P, G]`."""

import dataclasses

from jax import Array

from ipsrl.fields import non_negative
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


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
