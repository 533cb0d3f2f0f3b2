"""Splits of an optimiser step into successive steps, each with the advantages of some tokens."""

import dataclasses
import math
from typing import ClassVar

from jax import Array

from ipsrl.fields import Checked, open_probability
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class LowProbabilityFirst(Checked):
    """Lopti (arXiv 2505.12929): first the tokens with behaviour probability below `threshold`, then all others.

    The second step starts from the result of the first: unlikely tokens also move the likely ones through shared
    parameters, and the second step corrects that. Penalties act in both.
    """

    threshold: float = open_probability(0.5)
    count: ClassVar[int] = 2

    def __call__(self, rollouts: Rollouts, stage: Array) -> Array:
        return (rollouts.behaviour_log_probs < math.log(self.threshold)) == (stage == 0)
