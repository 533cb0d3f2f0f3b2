"""Regularisers of the policy's distribution over whole answers, as rewards: `[P, G]` -> `[P, G]`.

The gradient of E[r] - beta Omega(pi) is the policy gradient of the reward r - beta dOmega/dpi. The added term is
computed from the behaviour policy, so it is a constant for the gradient, and exact in the first step on each batch.

It may exceed rewards by orders of magnitude, and then float32 would round these away: so entropies and divergences are
relative to the group's answer that pays most for them, for advantages that do not depend on a constant. Answers without
tokens pay nothing.
"""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.checking.fields import below_one, non_negative, positive
from ipsrl.objectives.estimators.answered import less_largest_of_answered
from ipsrl.objectives.estimators.divergences import Divergence, check_alpha, link
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, masked_sum

EXPONENT_LIMIT = 20.0
"""(q - 1) log p is capped at this: for q < 1 the bonus of an unlikely answer is unbounded."""


@dataclasses.dataclass(frozen=True)
class TsallisEntropy(RolloutPart):
    """r - beta q/(q-1) p^(q-1), p the behaviour policy's probability of the whole answer; q = 1: r - beta log p.

    Its mean policy gradient is that of E[r] + beta S_q, S_q = (1 - sum p^q) / (q - 1): Shannon's entropy at q = 1.
    """

    beta: float = non_negative()
    q: float = positive(2.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_probability = masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        if self.q == 1.0:
            return values - self.beta * _relative(log_probability, rollouts)
        exponent = jnp.minimum((self.q - 1.0) * log_probability, EXPONENT_LIMIT)
        return values - self.beta * _relative(self.q / (self.q - 1.0) * jnp.expm1(exponent), rollouts)


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
        return values - self.beta * _relative(link(self.divergence, log_ratio, self.alpha), rollouts)


def _relative(costs: Array, rollouts: Rollouts) -> Array:
    """Costs `[P, G]` less the largest of the group, up to rounding: at most 0; 0 for answers without tokens."""
    return jnp.where(rollouts.answered, less_largest_of_answered(costs, rollouts), 0.0)


@dataclasses.dataclass(frozen=True)
class FilteredTarget(RolloutPart):
    """(p* / mu)^(1-alpha) of the whole answer, p* = pi_ref max(r, 0) / Z: alpha-DPG (arXiv 2512.05962).

    mu is the behaviour policy, and Z the group's mean of pi_ref max(r, 0) / mu, so that no answer gets more than
    G^(1-alpha). Its mean policy gradient is, but for the noise of Z, minus (1 - alpha) times that of an
    alpha-divergence D_f(pi || p*), which is the forward KL at alpha = 0 and tends to the reverse KL as alpha -> 1; in
    `divergences`, its alpha is 1 - alpha. Groups without reward get zero.
    """

    alpha: float = below_one(0.25)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_ratio = rollouts.reference_log_probs - rollouts.behaviour_log_probs
        correct = values > 0
        log_weight = masked_sum(log_ratio, rollouts.token_mask, axis=-1) + jnp.log(jnp.where(correct, values, 1.0))
        log_total = logsumexp(log_weight, axis=-1, keepdims=True, where=correct)
        exponent = (1.0 - self.alpha) * (log_weight - log_total + jnp.log(values.shape[-1]))
        return jnp.where(correct, jnp.exp(jnp.where(correct, exponent, 0.0)), 0.0)
