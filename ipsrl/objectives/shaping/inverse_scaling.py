"""Inverse probability scaling: rewards divided by the probability of their outcome, `[P, G]` -> `[P, G]`.

The parts differ in the source of the probability: the group's own counts (`InverseFrequency`), a moving average of such
counts (`InverseMovingFrequency`), or the policy's trajectory probability, corrected for many paths to an outcome by the
environment's backward policy (`InverseProbability`) or by a learned one (`InverseProbabilityLearned`).
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.bisection import bisected
from ipsrl.checking.fields import above, below_one, non_negative, positive, probability, share
from ipsrl.objectives.estimators.answered import largest_of_answered
from ipsrl.objectives.estimators.frequency import outcome_frequency
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, Sizes, masked_sum

BISECTIONS = 30
"""Bisection steps for the exponent: its range is halved to a billionth."""


@dataclasses.dataclass(frozen=True)
class InverseScaling(RolloutPart):
    """Base of the parts below: rewards times w_g = p_g^(-e), with e = `alpha` unless the effective sample size is too
    small.

    With `effective_share` s > 0, each group uses the largest e <= alpha at which the effective sample size of its
    weights, (sum w)^2 / sum w^2, is at least s G (our reading: of the weights alone, without the rewards; of answers
    with tokens). It falls as e grows: with x = -log p, its logarithm has the slope 2 (mean of x under w - mean of x
    under w^2) <= 0.
    """

    alpha: float = non_negative(1.0)
    _: dataclasses.KW_ONLY
    effective_share: float = below_one(0.0)

    def exponent(self, log_probability: Array, rollouts: Rollouts) -> Array | float:
        """e, from log p `[P, G]`: one number, or `[P, 1]` if it depends on the group."""
        if self.effective_share == 0.0:
            return self.alpha
        answered = rollouts.answered
        surprise = largest_of_answered(log_probability, rollouts) - log_probability
        least = jnp.log(self.effective_share * answered.sum(axis=-1))

        def enough(exponent):
            log_weight = jnp.where(answered, exponent[:, None] * surprise, -jnp.inf)
            return 2 * jax.nn.logsumexp(log_weight, axis=-1) - jax.nn.logsumexp(2 * log_weight, axis=-1) >= least

        whole = jnp.full(log_probability.shape[0], self.alpha, jnp.float32)
        low, _ = bisected(enough, jnp.zeros_like(whole), whole, BISECTIONS)
        return jnp.where(enough(whole), whole, low)[:, None]


@dataclasses.dataclass(frozen=True)
class InverseFrequency(InverseScaling):
    """Inverse probability scaling with the group's own frequencies (arXiv 2601.21669, Algorithm 1, Eq. 9).

        r~_g = r_g / max(phat(o_g), floor)^alpha,    phat = (n + pseudo_count) / (G + pseudo_count)

    `alpha = 1` without pseudo-count is the paper's rule; the ideal flow ends at p proportional to r^(1/alpha). Without
    pseudo-count a floor up to 1/G has no effect. A pseudo-count lambda > 0 (add-lambda smoothing; Laplace's rule up to
    a constant factor) narrows the range of the weights from G^alpha to ((G + lambda) / (1 + lambda))^alpha. A
    pseudo-count of (alpha - 1) / 2 removes the term of order 1/G of the bias E[phat^-alpha] p^alpha - 1.

    If every outcome of a group is unique, all weights are equal and the scaling has no effect: see
    `InverseProbability`. Meant for non-negative rewards: of rewards of -1, those of the rarest mistakes are scaled up
    most.
    """

    CALLED: ClassVar[str] = "inverse probability"
    floor: float = probability(0.0)
    pseudo_count: float = above(-1, 0.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        probability = jnp.maximum(outcome_frequency(rollouts.outcome_id, self.pseudo_count), self.floor)
        return values / probability ** self.exponent(jnp.log(probability), rollouts)


@dataclasses.dataclass(frozen=True)
class InverseMovingFrequency(InverseScaling):
    """Inverse probability scaling with frequencies averaged over earlier batches (after arXiv 2601.21669).

        pbar <- (1 - rate) pbar + rate phat,      r~_g = r_g / max(pbar(o_g), floor)^alpha

    phat counts all samples of a prompt in the batch, over all its groups; its first batch sets pbar. Outcomes index a
    table; samples without a valid outcome (-1) have their own column. While the policy does not move, pbar is as good
    as a group of G (2 - rate) / rate; while it drifts by d a step, pbar lags by d (1 - rate) / rate.
    """

    floor: float = probability(0.0)
    rate: float = share(0.1, called="ema_rate")

    def init(self, sizes: Sizes) -> Array:
        """pbar, `[num_prompts, num_outcomes + 1]`; zeros for prompts not yet seen."""
        if sizes.num_outcomes is None:
            raise ValueError(
                "moving frequencies are a table of outcomes, but this environment does not number outcomes"
            )
        return jnp.zeros((sizes.num_prompts, sizes.num_outcomes + 1))

    def update_state(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        place = (rollouts.prompt_index[:, None], rollouts.outcome_id)  # -1 is the last column
        counts = jnp.zeros_like(state).at[place].add(1.0)
        total = counts.sum(axis=-1, keepdims=True)
        frequency = counts / jnp.maximum(total, 1.0)
        met_before = state.any(axis=-1, keepdims=True)
        blended = jnp.where(met_before, (1.0 - self.rate) * state + self.rate * frequency, frequency)
        state = jnp.where(total > 0, blended, state)
        probability = jnp.maximum(state[place], self.floor)
        return values / probability ** self.exponent(jnp.log(probability), rollouts), state


@dataclasses.dataclass(frozen=True)
class InverseProbability(InverseScaling):
    """Inverse probability scaling with the policy's own trajectory probability, corrected for many paths per outcome.

        log w = log r + alpha (log q(trajectory | outcome) - log P(trajectory)),      r~ = exp(log w - log m)

    P is the behaviour policy, q the environment's backward policy (`Rollouts.log_backward`). At alpha = 1, the sum over
    trajectories into x of P w is r(x), so many paths to an outcome do not earn it more mass, and E[w] = Z = sum_x r(x)
    under every policy. Z is then constant, and m, the running mean of w for the prompt, only removes the scale. At
    every other alpha E[w] moves with the policy, and m follows it with the delay of its decay.

    Our reading of the sources: m is kept in log space with `decay`; the first batch sets it; |log w - log m| is capped
    at `log_ratio_cap`. Rewards of zero and negative rewards give exactly zero. A batch without any reward for a prompt
    does not change its m. With `by_path` q is 1, so that each path has a target of its own, and an outcome the more
    mass the more paths lead to it.
    """

    CALLED: ClassVar[str] = "inverse exact probability"
    decay: float = below_one(0.99)
    log_ratio_cap: float = positive(20.0)
    by_path: bool = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.by_path else frozenset({"log_backward"})

    def init(self, sizes: Sizes) -> Any:
        """Log of the running mean of each prompt, `[num_prompts]`; -inf for prompts not yet seen."""
        return jnp.full(sizes.num_prompts, -jnp.inf, jnp.float32)

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        log_path = masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        log_probability = log_path if self.by_path else log_path - rollouts.log_backward
        log_weight = jnp.log(jnp.maximum(values, 0.0)) - self.exponent(log_probability, rollouts) * log_probability

        # All groups of a prompt share its mean and compute the same new state.
        same_prompt = rollouts.same_prompt
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


@dataclasses.dataclass(frozen=True)
class InverseProbabilityLearned(InverseProbability):
    """`InverseProbability` with a backward policy learned by maximum likelihood from the sampled trajectories.

        q(move | state after) = (N(state after, move) + prior u(move | state after)) / (N(state after) + prior)

    N are counts of moves in earlier batches, multiplied by `decay` with each batch; u is the environment's backward
    policy. A batch is weighted before it is counted, so q does not depend on it and the target is unchanged. The better
    q predicts the path of the policy, the less the weights of one outcome vary; they are equal at q = P(trajectory |
    outcome), the limit of many counts. Moves must identify the state they come from.
    """

    prior: float = positive(1.0)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"step_log_backward", "next_states"})

    def init(self, sizes: Sizes) -> tuple[Array, Array]:
        """The running means of `InverseProbability`, and N, `[num_states, vocabulary_size]`."""
        if sizes.num_states is None or sizes.vocabulary_size is None:
            raise ValueError(
                "a learned backward policy is a table of states, but this environment does not number states"
            )
        return super().init(sizes), jnp.zeros((sizes.num_states, sizes.vocabulary_size))

    def update_state(
        self, values: Array, rollouts: Rollouts, state: tuple[Array, Array]
    ) -> tuple[Array, tuple[Array, Array]]:
        log_mean, counts = state
        mask, reached, moves = rollouts.token_mask, rollouts.next_states, rollouts.tokens
        expected = self.prior * jnp.exp(jnp.where(mask, rollouts.step_log_backward, 0.0))
        share = (counts[reached, moves] + expected) / (counts.sum(axis=-1)[reached] + self.prior)
        log_backward = masked_sum(jnp.log(share), mask, axis=-1)
        rollouts = dataclasses.replace(rollouts, log_backward=log_backward)
        shaped, log_mean = super().update_state(values, rollouts, log_mean)
        # Entries that are not moves get an index outside the table and are dropped: adding zeros would be slower.
        counts = (self.decay * counts).at[jnp.where(mask, reached, len(counts)), moves].add(1.0, mode="drop")
        return shaped, (log_mean, counts)
