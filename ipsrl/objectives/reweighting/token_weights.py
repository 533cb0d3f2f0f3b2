"""Advantages of answers or tokens: discounted, whitened, weighted or dropped, `[P, G, T]` -> `[P, G, T]`."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, probability, share
from ipsrl.objectives.estimators.discounting import discounted_sums
from ipsrl.objectives.estimators.reference_divergence import RewardEstimator, token_divergence
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class ReturnToGo(RolloutPart):
    """Discounted future reward: each token's own return (REINFORCE++, arXiv 2501.03262).

        R_t = sum_{u >= t} gamma^(u - t) (r_u - kl KL_u)

    r_u is the incoming value if u is the last token that the policy chose, else 0. With `by_turn` it is what the
    environment pays at u, `step_rewards`, and the rest of the incoming value comes at that last token; our reading.
    u and t count dictated tokens as well. KL_u estimates KL(behaviour || reference) at one token and needs
    `reference_log_probs` unless `kl` is 0.
    """

    gamma: float = share(1.0)
    kl: float = non_negative(0.0, called="the coefficient of the KL penalty")
    estimator: RewardEstimator = "k1"
    by_turn: bool = False

    @property
    def needs(self) -> frozenset[str]:
        fields = {"reference_log_probs": self.kl, "step_rewards": self.by_turn}
        return frozenset(name for name, read in fields.items() if read)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mask = rollouts.token_mask
        places = jnp.arange(mask.shape[-1])
        tokens_left = jnp.where(mask, places, 0).max(axis=-1, keepdims=True) - places
        at_end, before = values, 0.0
        if self.by_turn:
            paid = jnp.where(mask, rollouts.step_rewards, 0.0)
            at_end = values - paid.sum(axis=-1, keepdims=True)
            before = discounted_sums(paid, self.gamma, reverse=True)
        returns = jnp.where(mask, self.gamma ** jnp.maximum(tokens_left, 0) * at_end, 0.0) + before
        if self.kl:
            cost = token_divergence(rollouts.behaviour_log_probs, rollouts, self.estimator)
            returns -= self.kl * discounted_sums(cost, self.gamma, reverse=True)
        return returns


@dataclasses.dataclass(frozen=True)
class WhitenedTokens(RolloutPart):
    """(A - mean) / std over all tokens of the batch (REINFORCE++, arXiv 2501.03262): long answers count more.

    A batch whose tokens all have the same advantage gets exactly zero. verl's standard deviation divides by the number
    of tokens minus one (`unbiased`); no epsilon is added.
    """

    unbiased: bool = False

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mask = rollouts.token_mask
        tokens = jnp.maximum(mask.sum(), 1)
        centred = jnp.where(mask, values - masked_sum(values, mask) / tokens, 0.0)
        std = jnp.sqrt((centred**2).sum() / jnp.maximum(tokens - self.unbiased, 1))
        highest = jnp.where(mask, values, -jnp.inf).max()
        silent = all_equal(jnp.where(mask, values, highest).reshape(1, -1))[0] | (std == 0)
        return jnp.where(silent, 0.0, centred / jnp.where(silent, 1.0, std))


@dataclasses.dataclass(frozen=True)
class ProbabilityWeight(RolloutPart):
    """A_t (alpha p_t + 1 - alpha), p_t the behaviour probability of the token: AR (arXiv 2505.12929), for both signs of
    A.
    """

    alpha: float = probability(0.2)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        probability = jnp.exp(jnp.where(rollouts.token_mask, rollouts.behaviour_log_probs, 0.0))
        return values * (self.alpha * probability + 1.0 - self.alpha)


@dataclasses.dataclass(frozen=True)
class WithoutTruncated(RolloutPart):
    """Overlong filtering: 0 for answers truncated at the horizon, after the group was normalised with them (DAPO).

        A_g N / (N of the other answers)  for answers that ended by themselves;  N: `tokens` or `answers` of the batch

    The factor removes truncated answers from the denominator, as masking their tokens would (arXiv 2503.14476).
    `counted` must name what the mean is over: all tokens of the batch, or its answers that have tokens.
    """

    counted: Literal["tokens", "answers"] = "tokens"

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mask = rollouts.token_mask if self.counted == "tokens" else rollouts.token_mask.any(axis=-1, keepdims=True)
        left = mask & ~rollouts.truncated[..., None]
        factor = mask.sum() / jnp.maximum(left.sum(), 1)
        return jnp.where(rollouts.truncated[..., None], 0.0, factor * values)
