"""Parts that choose single tokens by their rank among all valid tokens of a batch of rollouts.

What they rank by is fixed when the batch is drawn (behaviour log-probabilities and entropies), so that the choice is
the same for every mini-batch and optimiser step. Published codes rank inside a mini-batch by the policy being trained:
the same numbers on the first update of a batch that is not split, and nearly so after it (our reading).
"""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import positive, share
from ipsrl.objectives.objective import Metrics, Penalty, RolloutPart
from ipsrl.objectives.ranks import largest, quantile, random_order
from ipsrl.structures import PolicyScores, Rollouts, masked_sum

ROUNDING = 1e-5
"""Sampler and scorer may differ by this much, in nats, in the log-probability of the same token and policy."""

SHARE_ROUNDING = 2.0**-22
"""More than float32 rounds a product such as 0.2 * 10, whose floor and ceiling must be 2.

Relative: counts of whole percents are exact up to 20,000 tokens chosen; beyond, they may be off by one."""


def token_covariance(advantages: Array, rollouts: Rollouts) -> Array:
    """(log pi - mean log pi) (A - mean A), means over all valid tokens of the batch, `[P, G, T]`; 0 elsewhere.

    Its mean is the covariance that lowers the entropy of a softmax policy (arXiv 2505.22617). log pi is the behaviour
    policy's.
    """
    mask = rollouts.token_mask
    tokens = jnp.maximum(_number(mask), 1.0)

    def centred(values):
        return jnp.where(mask, values - masked_sum(values, mask) / tokens, 0.0)

    return centred(rollouts.behaviour_log_probs) * centred(advantages)


@dataclasses.dataclass(frozen=True)
class DropHighCovariance(RolloutPart):
    """Clip-Cov: a few tokens of high covariance, drawn at random, lose their advantage (arXiv 2505.22617).

        candidates: lowest < cov < highest;   dropped: min( max(1, floor(fraction N)), number of candidates )

    cov is `token_covariance`, N the number of valid tokens of the batch. Dropped tokens stay in the denominators.
    The code also passes over tokens that PPO clips already: there are none when the batch is drawn.
    """

    fraction: float = share(2e-4)
    lowest: float = 1.0
    highest: float = 5.0
    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.lowest < self.highest:
            raise ValueError(f"candidates lie between {self.lowest} and {self.highest}: 0 <= lowest < highest")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        covariance = token_covariance(values, rollouts)
        candidates = rollouts.token_mask & (self.lowest < covariance) & (covariance < self.highest)
        draws = random_order(rollouts.keys, values.shape[1:])
        return jnp.where(largest(draws, candidates, rounded_down(self.fraction, rollouts.token_mask)), 0.0, values)


@dataclasses.dataclass(frozen=True)
class HighCovarianceDistance(Penalty):
    """KL-Cov: coefficient * |log pi - log mu| on the tokens of highest covariance (arXiv 2505.22617).

        on the max(1, floor(fraction N)) tokens with the largest `token_covariance`; mu is the behaviour policy

    Only tokens of positive covariance are chosen, so that a batch without information is left alone (our reading).
    The cost has no gradient at pi = mu: on the first update of a batch the penalty does nothing. Differences up to
    `ROUNDING` are taken for none, since the gradient of an absolute value would make their noise as large as any other.
    """

    name: ClassVar[str] = "covariance"
    coefficient: float = positive(1.0, called="the coefficient of KL-Cov")
    fraction: float = share(2e-3)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        difference = jnp.where(rollouts.token_mask, scores.log_probs - rollouts.behaviour_log_probs, 0.0)
        distance = jnp.abs(difference)
        return jnp.where(distance <= ROUNDING, 0.0, distance), {}

    def carry(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        covariance = token_covariance(advantages, rollouts)
        chosen = largest(covariance, covariance > 0, rounded_down(self.fraction, rollouts.token_mask))
        return jnp.where(chosen, self.coefficient, 0.0), state


@dataclasses.dataclass(frozen=True)
class HighEntropyTokens(RolloutPart):
    """Only the `fraction` of tokens with the highest entropy keep their advantage (80/20 rule, arXiv 2506.01939).

    `threshold` says which: `rank`, the ceil(fraction N) highest of the N valid tokens of the batch, and ties with the
    last; `quantile`, those at or above the (1 - fraction) quantile with linear interpolation, as TRL. With equal
    entropies both keep every token.

    `denominator` says over how many tokens a mean over tokens is: `kept`, as the paper, or `all`, as TRL. Surrogates
    are proportional to positive factors of A, so that sum_kept f(A) / N_kept = sum_all f(A~) / N where A~ is
    A N / N_kept on kept tokens and 0 on others. N / N_kept is that of the whole batch, also in its mini-batches.
    """

    fraction: float = share(0.2)
    threshold: Literal["rank", "quantile"] = "rank"
    denominator: Literal["kept", "all"] = "kept"

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        kept = self.kept(rollouts)
        scale = _number(rollouts.token_mask) / jnp.maximum(_number(kept), 1.0) if self.denominator == "kept" else 1.0
        return jnp.where(kept, values * scale, 0.0)

    def kept(self, rollouts: Rollouts) -> Array:
        """`[P, G, T]` bool, the tokens that keep their advantage."""
        entropy, mask = rollouts.behaviour_entropy, rollouts.token_mask
        if self.threshold == "quantile":
            return mask & (entropy >= quantile(entropy, mask, 1.0 - self.fraction))
        return largest(entropy, mask, rounded_up(self.fraction, mask))


def rounded_up(fraction: float, mask: Array) -> Array:
    """max(1, ceil(fraction N)), N the number of True, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.ceil(fraction * _number(mask) * (1.0 - SHARE_ROUNDING)), 1.0)


def rounded_down(fraction: float, mask: Array) -> Array:
    """max(1, floor(fraction N)), N the number of True, `[]`; see `SHARE_ROUNDING`."""
    return jnp.maximum(jnp.floor(fraction * _number(mask) * (1.0 + SHARE_ROUNDING)), 1.0)


def _number(mask: Array) -> Array:
    """How many are True, exact up to 2^24; float32, whose sums are faster than those of integers on a CPU."""
    return mask.sum(dtype=jnp.float32)
