"""A penalty on the tokens with the highest covariance (KL-Cov): `[P, G, T]` costs to minimise."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import positive, share
from ipsrl.objectives.estimators.ranks import largest
from ipsrl.objectives.estimators.token_shares import (
    rounded_down,
    token_covariance,
)
from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.structures import PolicyScores, Rollouts

ROUNDING = 1e-5
"""Largest rounding difference, in nats, between sampler and scorer for the same token and policy."""


@dataclasses.dataclass(frozen=True)
class HighCovarianceDistance(Penalty):
    """KL-Cov: coefficient * |log pi - log mu| on the tokens of highest covariance (arXiv 2505.22617).

        on the max(1, floor(fraction N)) tokens with the largest `token_covariance`; mu is the behaviour policy

    Only tokens with positive covariance are chosen, so a batch without preferences is not penalised (our reading). At
    pi = mu the cost has no gradient, so the first update of a batch has no penalty. Differences up to `ROUNDING` count
    as zero, because the absolute value would give rounding noise a gradient of full size.
    """

    name: ClassVar[str] = "covariance"
    coefficient: float = positive(1.0, called="the coefficient of KL-Cov")
    fraction: float = share(2e-3)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        difference = jnp.where(rollouts.token_mask, scores.log_probs - rollouts.behaviour_log_probs, 0.0)
        distance = jnp.abs(difference)
        return jnp.where(distance <= ROUNDING, 0.0, distance), {}

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        covariance = token_covariance(advantages, rollouts)
        chosen = largest(covariance, covariance > 0, rounded_down(self.fraction, rollouts.token_mask))
        return jnp.where(chosen, self.coefficient, 0.0), state
