"""Inverse probability scaling (arXiv 2601.21669) and its variants: rewards divided by the probability of their outcome.

The parts differ in the source of the probability: the group's own counts (`InverseFrequency`), a moving average of such
counts (`InverseMovingFrequency`), or the policy's trajectory probability, corrected for many paths to an outcome by the
environment's backward policy (`InverseProbability`) or by a learned one (`InverseProbabilityLearned`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking import fields
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, divergence, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.penalties import entropy_bonus
from ipsrl.objectives.shaping import InverseFrequency, InverseScaling
from ipsrl.objectives.surrogates import PolicyGradient
from ipsrl.structures import Rollouts, Sizes, masked_sum


@dataclasses.dataclass(frozen=True)
class InverseMovingFrequency(InverseScaling):
    """Inverse probability scaling with frequencies averaged over earlier batches (after arXiv 2601.21669).

        pbar <- (1 - rate) pbar + rate phat,      r~_g = r_g / max(pbar(o_g), floor)^alpha

    phat counts all samples of a prompt in the batch, over all its groups; its first batch sets pbar. Outcomes index a
    table; samples without a valid outcome (-1) have their own column. While the policy does not move, pbar is as good
    as a group of G (2 - rate) / rate; while it drifts by d a step, pbar lags by d (1 - rate) / rate.
    """

    floor: float = fields.probability(0.0)
    rate: float = fields.share(0.1, called="ema_rate")

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
    decay: float = fields.below_one(0.99)
    log_ratio_cap: float = fields.positive(20.0)
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

    prior: float = fields.positive(1.0)

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


@dataclasses.dataclass(frozen=True)
class Probability:
    """The estimate of the probability of an outcome.

    Attributes:
      scale: (alpha, floor, effective share) -> the part that scales rewards.
      has_floor: whether a floor means something.
      advantage_cap: bound of |A|; None for none.
    """

    scale: Callable[[float, float, float], RolloutPart]
    has_floor: bool = True
    advantage_cap: float | None = None

    NAMED: ClassVar[dict[str, Callable[..., "Probability"]]] = {}


def counts(pseudo_count: float = 0.0) -> Probability:
    """phat = (n + pseudo_count) / (G + pseudo_count), n the outcome's count in the group; at least the floor.

    The paper has no pseudo-count; a positive one narrows the range of the weights (add-lambda).
    """
    return Probability(lambda alpha, floor, share: InverseFrequency(alpha, floor, pseudo_count, effective_share=share))


def offset() -> Probability:
    """`counts` with pseudo_count = (alpha - 1) / 2, which removes the bias of order 1/G."""
    return Probability(
        lambda alpha, floor, share: InverseFrequency(alpha, floor, (alpha - 1.0) / 2.0, effective_share=share)
    )


def ema(rate: float = 0.1) -> Probability:
    """pbar <- (1 - rate) pbar + rate phat from batch to batch, a table of outcomes; at least the floor."""
    return Probability(lambda alpha, floor, share: InverseMovingFrequency(alpha, floor, rate, effective_share=share))


def exact(
    backward: Literal["uniform", "learned", "none"] = "uniform",
    decay: float = 0.99,
    log_ratio_cap: float = 20.0,
    advantage_cap: float = 10.0,
) -> Probability:
    """The policy's trajectory probability divided by a backward probability; rewards are divided by a running mean.

    The backward probability is the environment's `uniform` one, or one `learned` by maximum likelihood on earlier
    batches. With `none` it is 1: each trajectory is an outcome of its own, as the answers of a text may be. `decay` is
    that of the running mean (and of the learned counts), `log_ratio_cap` bounds the logarithm of the quotient,
    `advantage_cap` bounds |A| (our reading).
    """

    def scale(alpha: float, floor: float, share: float) -> RolloutPart:
        if backward == "learned":
            return InverseProbabilityLearned(alpha, decay, log_ratio_cap, effective_share=share)
        return InverseProbability(alpha, decay, log_ratio_cap, backward == "none", effective_share=share)

    return Probability(scale, False, advantage_cap)


Probability.NAMED.update({made.__name__: made for made in (counts, offset, ema, exact)})


@dataclasses.dataclass(frozen=True)
class Exponent:
    """An exponent that is lowered in each group until the weights have an effective sample size.

    Attributes:
      share: of the group, that (sum w)^2 / sum w^2 has to reach (our reading); 0 for a constant exponent.
      at_most: alpha where the weights reach it anyway.
    """

    share: float
    at_most: float = 1.0

    NAMED: ClassVar[dict[str, Callable[..., "Exponent"]]] = {}


Exponent.NAMED["effective"] = Exponent


def ips_reinforce(
    alpha: float | Exponent = 1.0,
    floor: float = 0.0,
    probability: Probability | Literal["counts"] = "counts",
    kl: float | KL = 0.0,
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """IPS-REINFORCE (arXiv 2601.21669, Theorem 4.1): A = r / p(outcome)^alpha: rule V on r~.

    The ideal flow (dz_i/dt = r_i - p_i sum(r) at alpha = 1) ends at p proportional to r^(1/alpha). `probability` is the
    estimate of p: `counts` in the group (the paper's), `offset`, `ema` or `exact`, each with arguments of its own, as
    in `probability=exact(backward=learned)`; counts are at least `floor`. `alpha=effective(0.5)` lowers alpha in each
    group until the effective sample size of the weights is that share of it (our reading).

    Rewards must not be negative: counts would push the rarest mistakes down most, and `exact` ignores them. `kl` pulls
    the policy to the reference: with the estimator k2, by KL(policy || reference) on average, no outcome dies. The
    paper's weight is not in our sources; the default is none.

    Degenerate: groups without reward get zero.
    Evidence: paper (counts, floor); derived (offset, ema, pseudo_count); code (exact); our reading (effective).
    """
    shaping, limit = _inverse(probability, alpha, floor)
    return Objective(
        reward_shaping=(shaping,),
        advantages=NoBaseline(limit=limit),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
        penalties=divergence(kl).penalty,
    )


def ips_grpo(
    alpha: float | Exponent = 1.0,
    floor: float = 0.0,
    probability: Probability | Literal["counts"] = "counts",
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """IPS-GRPO (arXiv 2601.21669, Algorithm 1): r~ = r / max(phat, floor)^alpha, then GRPO: rule N on r~.

    A = (r~ - group mean) / group std. The paper's headline is floor 0.2 at group size 16; a floor up to 1/G has no
    effect. `alpha` and `probability`: see `ips_reinforce`; the std removes any common scale, so with `exact` the
    running mean matters only where its `log_ratio_cap` acts.

    Degenerate: groups whose scaled rewards are all equal get zero: one outcome, or no reward.
    Evidence: paper (counts, floor); derived (offset, ema, pseudo_count); code (exact); our reading (effective).
    """
    shaping, limit = _inverse(probability, alpha, floor)
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(shaping,),
        advantages=GroupMeanStd(unbiased=unbiased_std, limit=limit),
        penalties=divergence(kl).penalty + entropy_bonus(entropy),
    )


def ips_dr_grpo(
    alpha: float | Exponent = 1.0,
    floor: float = 0.0,
    probability: Probability | Literal["counts"] = "counts",
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """IPS with Dr. GRPO (after arXiv 2601.21669): r~ = r / max(phat, floor)^alpha, A = r~ - group mean: rule B on r~.

    At alpha = 1 its mean field with group size G is that of rule V with G - 1: the baseline costs one sample.
    `alpha` and `probability`: see `ips_reinforce`.

    Degenerate: groups whose scaled rewards are all equal get zero: one outcome, or no reward.
    Evidence: derived (rule B of the finite-group theory); the estimates of the probability as in `ips_reinforce`.
    """
    shaping, limit = _inverse(probability, alpha, floor)
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(shaping,),
        advantages=GroupMean(limit=limit),
        penalties=divergence(kl).penalty + entropy_bonus(entropy),
    )


def _inverse(probability: Probability | str, alpha: float | Exponent, floor: float) -> tuple[RolloutPart, float | None]:
    """The part that scales rewards, and its cap on |A|."""
    if isinstance(probability, str):
        if probability != "counts":
            raise ValueError(
                f"probability={probability!r} is not one: in Python give counts(), offset(), ema() or exact()"
            )
        probability = counts()
    if floor and not probability.has_floor:
        raise ValueError(f"floor={floor} belongs to probability=counts, offset or ema: leave it out")
    alpha = alpha if isinstance(alpha, Exponent) else Exponent(0.0, alpha)
    return probability.scale(alpha.at_most, floor, alpha.share), probability.advantage_cap
