"""Inverse probability scaling: rewards over the probability of their outcome, `[P, G]` -> `[P, G]`."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, Sizes, masked_sum


def outcome_frequency(outcome_id: Array) -> Array:
    """Share of each sample's outcome in its own group, `[P, G]` ids -> `[P, G]` numbers in [1/G, 1].

    phat(o_g) = #{j : o_j = o_g} / G. Samples without a valid outcome (-1) count as one outcome.
    """
    return (outcome_id[:, :, None] == outcome_id[:, None, :]).mean(axis=-1, dtype=jnp.float32)


@dataclasses.dataclass(frozen=True)
class InverseFrequency(RolloutPart):
    """Inverse probability scaling with the group's own frequencies (arXiv 2601.21669, Algorithm 1, Eq. 9).

        r~_g = r_g / max(phat(o_g), floor)^alpha,    phat = frequency of the outcome in the group

    `alpha = 1` is the paper's rule; the ideal flow ends at p proportional to r^(1/alpha). A floor up to 1/G is inert.
    Where every outcome of a group is unique, all weights are equal and the rule is lost: see `InverseProbability`.
    """

    alpha: float = 1.0
    floor: float = 0.0
    smallest_group: ClassVar[int] = 2

    def __post_init__(self):
        _check_alpha(self.alpha)
        if not 0.0 <= self.floor <= 1.0:
            raise ValueError(f"floor is {self.floor}, it must be a probability between 0 and 1")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values / jnp.maximum(outcome_frequency(rollouts.outcome_id), self.floor) ** self.alpha


@dataclasses.dataclass(frozen=True)
class InverseProbability(RolloutPart):
    """Inverse probability scaling with the policy's own trajectory probability, corrected for many paths per outcome.

        log w = log r + alpha (log q(trajectory | outcome) - log P(trajectory)),      r~ = exp(log w - log m)

    P is the behaviour policy, q the environment's backward policy (`Rollouts.log_backward`): at alpha = 1,
    sum over the trajectories into x of P w = r(x), so that many paths to an outcome do not earn it more mass, and
    E[w] = Z = sum_x r(x) under every policy. Since Z does not move then, m, the running mean of w for the prompt, only
    takes the scale out. At every other alpha E[w] moves with the policy, and m follows it with the delay of its decay.

    Our reading of the sources: m is kept in log space with `decay`; the first batch sets it; |log w - log m| is capped
    at `log_ratio_cap`. Rewards of zero give exactly zero; rewards must not be negative. A batch in which
    a prompt earned nothing leaves its m as it was.
    """

    alpha: float = 1.0
    decay: float = 0.99
    log_ratio_cap: float = 20.0
    needs: ClassVar[frozenset[str]] = frozenset({"log_backward"})

    def __post_init__(self):
        _check_alpha(self.alpha)
        if not 0.0 <= self.decay < 1.0:
            raise ValueError(f"decay is {self.decay}, it must be at least 0 and below 1")
        if not self.log_ratio_cap > 0.0:
            raise ValueError(f"log_ratio_cap is {self.log_ratio_cap}, it must be positive")

    def init(self, sizes: Sizes) -> Array:
        """Log of the running mean for each prompt, `[num_prompts]`; -inf before the prompt was met."""
        return jnp.full(sizes.num_prompts, -jnp.inf, jnp.float32)

    def carry(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        log_probability = masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        log_weight = jnp.log(values) + self.alpha * (rollouts.log_backward - log_probability)

        # Groups of the same prompt share its mean, so that all of them leave the same state behind.
        same_prompt = rollouts.prompt_index[:, None] == rollouts.prompt_index
        group_mean = jax.nn.logsumexp(log_weight, axis=-1) - jnp.log(values.shape[-1])
        batch_mean = jax.nn.logsumexp(jnp.where(same_prompt, group_mean, -jnp.inf), axis=-1)
        batch_mean -= jnp.log(same_prompt.sum(axis=-1))
        before = state[rollouts.prompt_index]
        blended = jnp.logaddexp(before + jnp.log(self.decay), batch_mean + jnp.log1p(-self.decay))
        log_mean = jnp.where(jnp.isneginf(before), batch_mean, jnp.where(jnp.isneginf(batch_mean), before, blended))

        scale = jnp.where(jnp.isneginf(log_mean), 0.0, log_mean)[:, None]
        ratio = jnp.clip(log_weight - scale, -self.log_ratio_cap, self.log_ratio_cap)
        shaped = jnp.where(values > 0, jnp.exp(ratio), 0.0)
        return shaped, state.at[rollouts.prompt_index].set(log_mean)


def _check_alpha(alpha: float) -> None:
    if not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha}, it must be finite and not negative")
