"""A divergence from the reference on mastered prompts only (DPH-RL): `[P, G, T]` costs to minimise."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative, positive, share
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT
from ipsrl.objectives.estimators.mastered import mastered_groups
from ipsrl.objectives.objective import Metrics, Penalty
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class MasteredDivergence(Penalty):
    """coefficient * D_f of the policy from the reference, on mastered groups only (DPH-RL, arXiv 2509.07430).

        E_ref[ f(u) ],  u = pi / pi_ref of a token;     forward_kl: f = -log u  (the likelihood of reference samples)
                                                        jensen_shannon: f = u log u - (u + 1) log((u + 1) / 2)

    The paper averages over stored samples of the reference. Here the samples are the behaviour policy's, each token
    weighted by min(pi_ref / pi_behaviour, ratio_limit), a constant (our reading). This is exact for answers of one
    token where the limit does not act; for longer answers it omits the reference's probability of the preceding tokens.
    |log u| is clamped to 20 before exp.
    """

    name: ClassVar[str] = "mastered_divergence"
    coefficient: float = non_negative(called="eta, the weight of the divergence,")
    divergence: Literal["forward_kl", "jensen_shannon"] = "jensen_shannon"
    mastered_at: float = share(1.0, called="mastered_at, a share of correct answers,")
    ratio_limit: float = positive(5.0)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        mastered = mastered_groups(rollouts.right, self.mastered_at)
        return jnp.where(mastered, self.coefficient, 0.0)[:, None, None], state

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        importance = jnp.where(mask, rollouts.reference_log_probs - rollouts.behaviour_log_probs, 0.0)
        importance = jnp.minimum(jnp.exp(jnp.clip(importance, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)), self.ratio_limit)
        log_ratio = jnp.where(mask, scores.log_probs - rollouts.reference_log_probs, 0.0)
        if self.divergence == "forward_kl":
            cost = -importance * log_ratio
        else:
            log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
            ratio = jnp.exp(log_ratio)
            cost = importance * (ratio * log_ratio - (ratio + 1.0) * jnp.log((ratio + 1.0) / 2.0))
        mastered = mastered_groups(rollouts.right, self.mastered_at)
        tokens = mask & mastered[:, None, None]
        return cost, {
            "mastered_groups": (mastered.sum(dtype=jnp.float32), jnp.float32(mastered.size)),
            "mastered_divergence": (masked_sum(cost, tokens), tokens.sum(dtype=jnp.float32)),
        }
