"""Reward shaping for diversity inside the group: `[P, G]` -> `[P, G]`.

Correct answers are those of `Rollouts.right`. Answers are alike if they have the same `outcome_id`; answers without a
valid outcome (-1) count as one outcome, unless a part says otherwise.
"""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, non_negative, positive, probability
from ipsrl.objectives.estimators.frequency import outcome_frequency, same_outcome
from ipsrl.objectives.estimators.permutations import permuted_among
from ipsrl.objectives.objective import RolloutPart, all_equal, rounding
from ipsrl.objectives.shaping.inverse_scaling import InverseFrequency
from ipsrl.structures import Rollouts, masked_mean, masked_sum

TOKEN_BUCKETS = 1024
"""Number of buckets for token counts; tokens are taken modulo this."""


@dataclasses.dataclass(frozen=True)
class DistinctShare(RolloutPart):
    """DARLING: quality times the share of other answers that differ from this one (arXiv 2509.02534).

        r~_g = r_g Div_g,     Div_g = #{j : o_j not like o_g} / (n - 1)

    `verifiable`: n and Div count correct answers only, and Div is at least `floor`; a single correct answer has Div 1
    (our reading). Otherwise all answers count, there is no floor, and a group with negative rewards is first shifted
    until the lowest reward is 0 (our reading of "shifted to be non-negative").
    """

    verifiable: bool = True
    floor: float = probability(0.1)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        unlike = ~same_outcome(rollouts.outcome_id)
        if not self.verifiable:
            quality = values - jnp.minimum(values.min(axis=-1, keepdims=True), 0.0)
            quality = jnp.where(quality > rounding(values), quality, 0.0)
            return quality * unlike.sum(axis=-1) / (values.shape[-1] - 1)
        correct = rollouts.right
        others = correct.sum(axis=-1, keepdims=True) - 1
        share = (unlike & correct[:, None, :]).sum(axis=-1) / jnp.maximum(others, 1)
        share = jnp.where(others > 0, share, 1.0)
        return values * jnp.where(correct, jnp.maximum(share, self.floor), self.floor)


@dataclasses.dataclass(frozen=True)
class UniformFrequency(RolloutPart):
    """GAPO: valid answers earn 1 minus the distance of their frequency from uniform (arXiv 2511.12596).

        r~_g = 1 - |f(o_g) - 1/|V||  for valid answers,     -1 for others

    f is the frequency among the valid answers of the group: the correct ones with an outcome. |V| is the
    number of valid outcomes; `None` counts those in the group (our reading). The size of rewards is not used. With two
    valid outcomes both always earn the same, so there is no preference.
    """

    valid: int | None = at_least(1, None, called="valid, the number of valid outcomes,")
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        valid = rollouts.right & (rollouts.outcome_id >= 0)
        alike = jnp.maximum((same_outcome(rollouts.outcome_id) & valid[:, None, :]).sum(axis=-1), 1)
        frequency = alike / jnp.maximum(valid.sum(axis=-1, keepdims=True), 1)
        seen = jnp.round(masked_sum(1.0 / alike, valid, axis=-1))[:, None]
        outcomes = jnp.maximum(seen, 1.0) if self.valid is None else self.valid
        return jnp.where(valid, 1.0 - jnp.abs(frequency - 1.0 / outcomes), -1.0)


@dataclasses.dataclass(frozen=True)
class OutcomeEntropy(RolloutPart):
    """r + beta times a bonus for rare outcomes, by their frequencies in the group (arXiv 2604.27166).

        entropy:  - log phat(o_g)     gini:  1 - phat(o_g)

    With the policy's probabilities in the place of phat the mean update would be that of E[r] + beta H with Shannon's
    entropy, and of E[r] + beta/2 (1 - sum p^2) with Gini's (`TsallisEntropy`). phat(o_g) holds the answer itself, so
    the bonus of an outcome is at most beta log G, or beta (1 - 1/G), however rare it is.
    """

    beta: float = non_negative(0.1)
    form: Literal["entropy", "gini"] = "entropy"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        frequency = outcome_frequency(rollouts.outcome_id)
        return values + self.beta * (-jnp.log(frequency) if self.form == "entropy" else 1.0 - frequency)


@dataclasses.dataclass(frozen=True)
class Unlikeliness(RolloutPart):
    """Unlikeliness reward: the more likely an answer within its group, the less it earns (arXiv 2506.02355).

        r~_g = r_g (1 - beta rank_g / G)

    rank orders the length-averaged behaviour log-probabilities, 0 = least likely; ties, up to rounding, share the mean
    of their ranks.
    """

    beta: float = probability(0.25)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        likelihood = masked_mean(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        behind = likelihood[:, :, None] - likelihood[:, None, :]
        tied = jnp.abs(behind) <= rounding(likelihood)[..., None]
        rank = ((behind > 0) & ~tied).sum(axis=-1) + (tied.sum(axis=-1) - 1) / 2
        return values * (1.0 - self.beta * rank / values.shape[-1])


@dataclasses.dataclass(frozen=True)
class SimilarityDiscount(RolloutPart):
    """DRA: rewards divided by the summed similarity to the group, including itself (arXiv 2505.09655).

        r~_g = r_g / sum_j cos(e_g, e_j)

    The paper embeds answers with a sentence encoder. Here e is one-hot in the `outcome`, which gives inverse
    probability scaling divided by G, or counts the `tokens` of the answer modulo 1024, which reflects wording (our
    reading). The released code compares all answers on a device; this compares a group.
    """

    similarity: Literal["outcome", "tokens"] = "outcome"
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        if self.similarity == "outcome":
            return values / (values.shape[-1] * outcome_frequency(rollouts.outcome_id))
        counts = jax.vmap(_bucket_counts)(rollouts.tokens, rollouts.token_mask)
        length = jnp.maximum(jnp.sqrt((counts**2).sum(axis=-1)), 1.0)
        summed = jnp.einsum("pgb,pg->pb", counts, 1.0 / length, precision="highest")
        similarity = jnp.einsum("pgb,pb->pg", counts, summed, precision="highest") / length
        # Each answer is similar to itself: the sum is at least 1, also for answers without tokens.
        return values / jnp.maximum(similarity, 1.0)


@dataclasses.dataclass(frozen=True)
class EllipticalBonus(RolloutPart):
    """RepExp: r + beta times how far an answer's features are from the others' of its group (arXiv 2510.11686).

        leverage:       h_g = phi_g' (ridge I + sum_j phi_j phi_j')^-1 phi_g,    phi_g = f_g - mean of the group
        leave_one_out:  the same with j != g, which is h_g / (1 - h_g)

    f is `Rollouts.answer_features`, or one-hot in the outcome. The centre is that of the whole group in both, as in the
    released code. h is at most 1 - 1/G, which each answer has nearly if all differ by much more than sqrt(ridge) in
    directions of their own; where n of the group share theirs it is nearly 1/n - 1/G. Groups without a correct answer
    get no bonus, nor do those whose h differ by less than 32 roundings of numbers near 1. Values are relative to the
    group's smallest reward, for advantages that do not depend on a constant.
    """

    beta: float = non_negative(0.01)
    ridge: float = positive(0.01)
    leave_one_out: bool = False
    features: Literal["hidden", "outcome"] = "hidden"
    smallest_group: ClassVar[int] = 2

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"answer_features"} if self.features == "hidden" else ())

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        if self.features == "hidden":
            features = rollouts.answer_features.astype(values.dtype)
        else:
            first_alike = same_outcome(rollouts.outcome_id).argmax(axis=-1)
            features = jax.nn.one_hot(first_alike, values.shape[-1], dtype=values.dtype)
        centred = features - features.mean(axis=-2, keepdims=True)
        # Not from products of answers, whose squares lose half of the digits; the triangle is small where H is large.
        triangle = jnp.linalg.qr(centred.mT, mode="r")
        _, singular, right = jnp.linalg.svd(triangle, full_matrices=False)
        kept = singular**2 / (singular**2 + self.ridge)
        leverage = (right**2 * kept[..., None]).sum(axis=-2)
        bonus = leverage / (1.0 - leverage) if self.leave_one_out else leverage
        differs = leverage.max(axis=-1) - leverage.min(axis=-1) > 32 * jnp.finfo(leverage.dtype).eps
        given = differs & rollouts.right.any(axis=-1)
        # Relative to the group's smallest, so that a reward of 1 does not round a bonus of 0.01.
        relative = jnp.where(all_equal(values)[:, None], 0.0, values - values.min(axis=-1, keepdims=True))
        return relative + jnp.where(given[:, None], self.beta * bonus, 0.0)


def _bucket_counts(tokens: Array, mask: Array) -> Array:
    """Number of tokens in each bucket for each answer of a group, `[G, T]` -> `[G, TOKEN_BUCKETS]` float32."""
    group = len(tokens)
    # Scattering with one combined index is faster than with two.
    bucket = jnp.arange(group)[:, None] * TOKEN_BUCKETS + tokens % TOKEN_BUCKETS
    return jnp.zeros(group * TOKEN_BUCKETS).at[bucket].add(mask).reshape(group, TOKEN_BUCKETS)


@dataclasses.dataclass(frozen=True)
class PermutedInverseFrequency(InverseFrequency):
    """Placebo of inverse probability scaling: its weights, permuted at random among a group's rewarded answers.

        r~_g = r_g w_pi(g),    w = 1 / max(phat, floor)^alpha,    pi uniform over the permutations of {g : r_g != 0}

    A weight acts only on a reward, so unrewarded answers are left out: for equal rewards the mean and variance of r~ in
    every group are those of `InverseFrequency`, but weights are unrelated to outcomes. Random numbers come from
    `Rollouts.keys`.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        weights = super().__call__(jnp.ones_like(values), rollouts)
        return values * permuted_among(weights, values != 0, rollouts.keys)
