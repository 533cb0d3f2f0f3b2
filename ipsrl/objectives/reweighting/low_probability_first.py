"""Which tokens take an optimiser step of their own, before that of all others."""

import dataclasses
import math

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

    def __call__(self, rollouts: Rollouts) -> Array:
        """`[P, G, T]` bool, True for the tokens of the first step."""
        return rollouts.behaviour_log_probs < math.log(self.threshold)
