"""Splits of an optimiser step into several, one after the other, each with the advantages of some tokens."""

import dataclasses
import math
from typing import ClassVar

from jax import Array

from ipsrl.fields import Checked, open_probability
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class LowProbabilityFirst(Checked):
    """Lopti (arXiv 2505.12929): first the tokens with behaviour probability below `threshold`, then all others.

    The second step starts from the policy that the first one has left: while the likely tokens wait, they are moved
    by what the unlikely ones do to the shared parameters, and their own step sees the result. Penalties act in both.
    """

    threshold: float = open_probability(0.5)
    count: ClassVar[int] = 2

    def __call__(self, rollouts: Rollouts, stage: Array) -> Array:
        return (rollouts.behaviour_log_probs < math.log(self.threshold)) == (stage == 0)
