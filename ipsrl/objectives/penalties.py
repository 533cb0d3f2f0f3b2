"""Parts that add a cost to the loss: `[P, G, T]` costs to minimise, which the objective multiplies by a coefficient."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.structures import PolicyScores, Rollouts


@dataclasses.dataclass(frozen=True)
class KullbackLeibler(Penalty):
    """coefficient * KL(policy || reference), estimated at the sampled tokens; d = log pi - log pi_ref.

        k2 = d^2 / 2                 its on-policy gradient is that of KL(policy || reference)
        k3 = exp(-d) + d - 1 >= 0    unbiased in value; its on-policy gradient is that of KL(reference || policy)

    k3 is GRPO's (arXiv 2402.03300, coefficient 0.04). -d is clamped to [-20, 20] before exp.
    """

    coefficient: float
    estimator: Literal["k2", "k3"] = "k3"
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __post_init__(self):
        if not 0.0 < self.coefficient < math.inf:
            raise ValueError(f"the coefficient of the KL penalty is {self.coefficient}, it must be positive and finite")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        difference = jnp.where(mask, scores.log_probs - rollouts.reference_log_probs, 0.0)
        if self.estimator == "k2":
            divergence = difference**2 / 2
        else:
            divergence = jnp.exp(jnp.clip(-difference, -20.0, 20.0)) + difference - 1.0
        return divergence, {"reference_kl": (divergence.sum(), mask.sum(dtype=jnp.float32))}


@dataclasses.dataclass(frozen=True)
class EntropyBonus(Penalty):
    """-coefficient * H of the next-token distribution, in nats, with gradient. Below 0 it is a penalty on entropy."""

    coefficient: float

    def __post_init__(self):
        if not math.isfinite(self.coefficient):
            raise ValueError(f"the coefficient of the entropy bonus is {self.coefficient}, it must be finite")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        return -scores.entropy, {}
