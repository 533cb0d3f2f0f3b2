"""Splits of an optimiser step into several, one after the other, each with the advantages of some tokens."""

import dataclasses
import math
from typing import ClassVar

from jax import Array

from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class LowProbabilityFirst:
    """Lopti (arXiv 2505.12929): first the tokens with behaviour probability below `threshold`, then all others.

    The second step starts from the policy that the first one has left: while the likely tokens wait, they are moved
    by what the unlikely ones do to the shared parameters, and their own step sees the result. Penalties act in both.
    """

    threshold: float = 0.5
    count: ClassVar[int] = 2

    def __post_init__(self):
        if not 0.0 < self.threshold < 1.0:
            raise ValueError(f"threshold is {self.threshold}, it must be a probability strictly between 0 and 1")

    def __call__(self, rollouts: Rollouts, stage: Array) -> Array:
        return (rollouts.behaviour_log_probs < math.log(self.threshold)) == (stage == 0)
