"""The entropy bonus: `[P, G, T]` costs to minimise, which the objective multiplies by a coefficient."""

import dataclasses
from typing import ClassVar

from jax import Array

from ipsrl.checking.fields import finite
from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.structures import PolicyScores, Rollouts


@dataclasses.dataclass(frozen=True)
class EntropyBonus(Penalty):
    """-coefficient * H of the next-token distribution, in nats, with gradient. A negative coefficient penalises
    entropy.
    """

    name: ClassVar[str] = "entropy"
    coefficient: float = finite(called="the coefficient of the entropy bonus")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        return -scores.entropy, {}


def entropy_bonus(coefficient: float) -> tuple[Penalty, ...]:
    """The entropy bonus; empty if the coefficient is 0."""
    return (EntropyBonus(coefficient),) if coefficient else ()
