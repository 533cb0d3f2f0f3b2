"""Rewards that make good answers equally likely under the KL-regularised optimum: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import finite, positive
from ipsrl.objectives.objective import RolloutPart, rounding
from ipsrl.structures import Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class ModeAnchor(RolloutPart):
    """MARA: gives good answers the rewards that make them equally likely at the KL-regularised optimum (arXiv
    2510.20817).

        r~_g = r_z + beta (log pi_ref(z) - log pi_ref(o_g))     where r_g >= threshold;     r_g elsewhere

    z is the answer most likely under the reference among those at or above the threshold (of several, one with the
    highest reward). Then pi_ref exp(r~ / beta) is equal for all of them. pi_ref(o) is the probability of the whole
    answer. `threshold=None` is the best reward of the group, if such answers are right (our reading).
    """

    beta: float = positive()
    threshold: float | None = finite(None)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_reference = masked_sum(rollouts.reference_log_probs, rollouts.token_mask, axis=-1)
        if self.threshold is None:
            good = (values >= values.max(axis=-1, keepdims=True) - rounding(values)) & rollouts.right
        else:
            good = (
                values >= self.threshold - rounding(jnp.full_like(values[:1, :1], self.threshold))
            ) & rollouts.answered
        level = jnp.where(good, log_reference, -jnp.inf).max(axis=-1, keepdims=True)
        likeliest = good & (log_reference >= level - rounding(log_reference))
        anchor = jnp.where(likeliest, values, -jnp.inf).max(axis=-1, keepdims=True)
        return jnp.where(good, anchor + self.beta * (level - log_reference), values)
