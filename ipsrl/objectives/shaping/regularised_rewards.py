"""Regularisers of the policy's distribution over whole answers, as rewards: `[P, G]` -> `[P, G]`.

The gradient of E[r] - beta Omega(pi) is the policy gradient of the reward r - beta dOmega/dpi. The added term is
computed from the behaviour policy, so it is a constant for the gradient, and exact in the first step on each batch.
"""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative, positive
from ipsrl.objectives.estimators.divergences import Divergence, check_alpha, link
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, masked_sum

EXPONENT_LIMIT = 20.0
"""(q - 1) log p is capped at this: for q < 1 the bonus of an unlikely answer is unbounded."""


@dataclasses.dataclass(frozen=True)
class TsallisEntropy(RolloutPart):
    """r - beta q/(q-1) (p^(q-1) - 1), p the behaviour policy's probability of the whole answer; q = 1: r - beta log p.

    Its mean policy gradient is that of E[r] + beta S_q, S_q = (1 - sum p^q) / (q - 1): Shannon's entropy at q = 1.
    """

    beta: float = non_negative()
    q: float = positive(2.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_probability = masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        if self.q == 1.0:
            return values - self.beta * log_probability
        exponent = jnp.minimum((self.q - 1.0) * log_probability, EXPONENT_LIMIT)
        return values - self.beta * self.q / (self.q - 1.0) * jnp.expm1(exponent)


@dataclasses.dataclass(frozen=True)
class ReferenceDivergence(RolloutPart):
    """r - beta f'(u), u = behaviour / reference probability of the whole answer, f' up to a constant.

    Its mean policy gradient, with a baseline, is that of E[r] - beta D_f(pi || ref). The links f', and the bound on
    |log u| in some of them, are in `divergences`.
    """

    divergence: Divergence
    beta: float = non_negative()
    alpha: float = 0.5
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __post_init__(self):
        super().__post_init__()
        check_alpha(self.divergence, self.alpha)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_ratio = rollouts.behaviour_log_probs - rollouts.reference_log_probs
        log_ratio = masked_sum(log_ratio, rollouts.token_mask, axis=-1)
        return values - self.beta * link(self.divergence, log_ratio, self.alpha)
