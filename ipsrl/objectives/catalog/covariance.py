"""GRPO that holds back the tokens whose log-probability covaries most with their advantage.

The tokens are chosen once, among all valid tokens of a batch of rollouts, by log-probabilities of the policy that
sampled it: the choice is the same for every mini-batch and optimiser step. Published codes choose inside a mini-batch,
by the policy being trained: the same on the first update of an unsplit batch, and nearly the same later (our reading).
"""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive, share
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.ranks import largest, random_order
from ipsrl.objectives.estimators.token_shares import rounded_down
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Penalty, RolloutPart
from ipsrl.objectives.surrogates import ImportanceRatio
from ipsrl.objectives.ties import rounding
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_sum


def token_covariance(advantages: Array, rollouts: Rollouts) -> Array:
    """(log pi - mean log pi) (A - mean A), means over all valid tokens of the batch, `[P, G, T]`; 0 elsewhere.

    Its mean is the covariance that lowers the entropy of a softmax policy (arXiv 2505.22617). pi is the behaviour
    policy. A difference of rounding is 0.
    """
    mask = rollouts.token_mask
    tokens = jnp.maximum(mask.sum(dtype=jnp.float32), 1.0)

    def centred(values):
        difference = values - masked_sum(values, mask) / tokens
        differs = jnp.abs(difference) > rounding(jnp.where(mask, values, 0.0), axis=None)
        return jnp.where(mask & differs, difference, 0.0)

    return centred(rollouts.behaviour_log_probs) * centred(advantages)


@dataclasses.dataclass(frozen=True)
class DropHighCovariance(RolloutPart):
    """Clip-Cov: a few tokens of high covariance, sampled at random, lose their advantage (arXiv 2505.22617).

        candidates: lowest < cov < highest;   dropped: min( max(1, floor(fraction N)), number of candidates )

    cov is `token_covariance`, N the number of valid tokens of the batch. Dropped tokens stay in the denominators. The
    released code also skips tokens that PPO already clips; there are none when the batch is sampled.
    """

    fraction: float = share(2e-4)
    lowest: float = 1.0
    highest: float = 5.0
    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.lowest < self.highest:
            raise ValueError(
                f"candidates lie between {self.lowest} and {self.highest}, they need 0 <= lowest < highest"
            )

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        covariance = token_covariance(values, rollouts)
        candidates = rollouts.token_mask & (self.lowest < covariance) & (covariance < self.highest)
        draws = random_order(rollouts.keys, values.shape[1:])
        return jnp.where(largest(draws, candidates, rounded_down(self.fraction, rollouts.token_mask)), 0.0, values)


def clip_cov(
    fraction: float = 2e-4,
    lowest: float = 1.0,
    highest: float = 5.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Clip-Cov (arXiv 2505.22617): GRPO, but A = 0 at a few random tokens with lowest < cov < highest.

    cov = (log pi - mean)(A - mean) over the valid tokens of the batch; max(1, floor(fraction N)) of N tokens are
    sampled. Our reading: cov is that of the whole batch of rollouts under the policy that sampled it, instead of each
    mini-batch under the policy being trained; both are the same on the first update of an unsplit batch. The authors'
    32B script sets both clip limits to 1.

    Degenerate: groups with equal rewards get zero; if no token lies between the limits, no token is dropped.
    Evidence: paper and code (the authors' repository, verl).
    Peers: verl.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=GroupMeanStd(),
        reweighting=(DropHighCovariance(fraction, lowest=lowest, highest=highest),),
    )


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


def kl_cov(
    fraction: float = 2e-3,
    coefficient: float = 1.0,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """KL-Cov (arXiv 2505.22617): rho A, no clip, minus beta |log pi - log mu| on the tokens of highest cov.

    cov as in `clip_cov`, with the same reading; the max(1, floor(fraction N)) tokens with the largest cov pay
    `coefficient` times the distance to the policy that sampled. The paper's fraction is 2e-3 for 7B and 2e-4 for 32B;
    verl's default coefficient is 0.1. The penalty has no gradient on the first update of a batch.

    Degenerate: groups with equal rewards get no advantage; a batch of only such groups has no penalty.
    Evidence: paper and code (the authors' repository, verl).
    Peers: verl.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=ImportanceRatio(),
        penalties=(HighCovarianceDistance(coefficient=coefficient, fraction=fraction),),
        aggregation=aggregated_by(aggregation),
    )
