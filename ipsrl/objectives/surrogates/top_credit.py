"""PPO's surrogate with the credit of forking tokens spread over the likeliest ones."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import at_least, between, positive
from ipsrl.objectives.estimators.importance import importance_ratio, log_importance_ratio, with_constant_weight
from ipsrl.objectives.estimators.ranks import quantile
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.objectives.surrogates.ratio import check_clip, clipped
from ipsrl.structures import PolicyScores, Rollouts


@dataclasses.dataclass(frozen=True)
class TopCredit(Surrogate):
    """`ClippedRatio`, but at forks another gradient of right answers, another weight of wrong ones: SimKO.

    (arXiv 2510.14807). A fork is a token whose entropy, in the policy that sampled it, is above the `quantile` of its
    answer's. There, with the K likeliest tokens of that policy,

        A > 0:  gradient rho A ( (1 - spread) grad log pi + spread / K sum_k grad log pi_k ), the value is rho A
        A < 0, and the token is the likeliest:  `heavier` A in the place of A

    A token whose clip is active has no gradient, as in PPO. An answer of one token has no fork. Tokens that are
    impossible do not count among the K.
    """

    low: float = 0.2
    high: float = 0.2
    likeliest: int = at_least(1, 3, called="likeliest, the number of tokens that share the credit,")
    spread: float = between(0.0, 1.0, 0.01)
    heavier: float = positive(1.1)
    quantile: float = between(0.0, 1.0, 0.8)
    needs: ClassVar[frozenset[str]] = frozenset({"top_log_probs"})

    def __post_init__(self):
        super().__post_init__()
        check_clip(self.low, self.high)

    @property
    def top_tokens(self) -> int:
        return self.likeliest

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        forks = self.forks(rollouts)
        is_top = rollouts.tokens == rollouts.top_tokens[..., 0]
        advantages = jnp.where(forks & is_top & (advantages < 0), self.heavier * advantages, advantages)
        ratio = importance_ratio(scores, rollouts)
        spread = with_constant_weight(
            ratio,
            log_importance_ratio(scores, rollouts),
            dataclasses.replace(scores, log_probs=self._spread_log_probs(scores, rollouts)),
            rollouts,
        )
        ratio = jnp.where(forks & (advantages > 0), spread, ratio)
        return clipped(ratio, rollouts.token_mask, advantages, self.low, self.high)

    def forks(self, rollouts: Rollouts) -> Array:
        """`[P, G, T]` bool."""
        entropy, mask = rollouts.behaviour_entropy, rollouts.token_mask
        of_answer = jax.vmap(jax.vmap(lambda values, valid: quantile(values, valid, self.quantile)))
        return mask & (entropy > of_answer(entropy, mask)[..., None])

    def _spread_log_probs(self, scores: PolicyScores, rollouts: Rollouts) -> Array:
        possible = rollouts.token_mask[..., None] & jnp.isfinite(rollouts.top_log_probs[..., : self.likeliest])
        top = jnp.where(possible, scores.top_log_probs[..., : self.likeliest], 0.0)
        mean = top.sum(axis=-1) / jnp.maximum(possible.sum(axis=-1), 1)
        return (1.0 - self.spread) * scores.log_probs + self.spread * mean
