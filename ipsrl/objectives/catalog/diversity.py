"""Objectives that keep several correct answers likely, by how an answer differs from the others of its group: peers of
inverse probability scaling, and its placebo.

Correct answers are those of `Rollouts.right`. Answers are alike if they have the same `outcome_id`; answers without a
valid outcome (-1) count as one outcome, unless a part says otherwise. `standardise` divides advantages by the group's
standard deviation, so that every peer can be compared with and without it.
"""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, non_negative, positive, probability
from ipsrl.objectives.advantages import group_centred
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.frequency import outcome_frequency, same_outcome
from ipsrl.objectives.estimators.permutations import permuted_among
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.shaping import InverseFrequency
from ipsrl.objectives.ties import all_equal, rounding
from ipsrl.structures import Rollouts, masked_sum

FLOOR = 0.1


@dataclasses.dataclass(frozen=True)
class DistinctShare(RolloutPart):
    """DARLING: quality times the share of other answers that differ from this one (arXiv 2509.02534).

        r~_g = r_g Div_g,     Div_g = #{j : o_j not like o_g} / (n - 1)

    `verifiable`: n and Div count correct answers only, and Div is at least `floor`; a single correct answer has Div 1
    (our reading). Otherwise all answers count, there is no floor, and a group with negative rewards is first shifted
    until the lowest reward is 0 (our reading of "shifted to be non-negative").
    """

    verifiable: bool = True
    floor: float = probability(FLOOR)
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


def darling(
    verifiable: bool = True,
    floor: float = FLOOR,
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """DARLING (arXiv 2509.02534): r~ = r * (share of the other answers that are unlike this one), A = r~ - group mean.

    The paper sorts answers into classes of meaning with a classifier; here a class is an outcome. `verifiable` takes
    the share among correct answers, at least `floor`; otherwise among all answers, without a floor, with rewards
    shifted to be non-negative. Linear in 1 - phat, while IPS is 1 / phat. Our reading: a single correct answer has
    share 1; only groups with negative rewards are shifted.

    Degenerate: groups without reward, and groups of one outcome with equal rewards, get exactly zero.
    Evidence: code and second-hand.
    """
    if floor != FLOOR and not verifiable:
        raise ValueError(f"floor={floor} belongs to verifiable=True: leave it out")
    return with_clip(
        clip, aggregation, reward_shaping=(DistinctShare(verifiable, floor),), advantages=group_centred(standardise)
    )


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


def gapo(
    valid: int | None = None,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GAPO (arXiv 2511.12596): r~ = 1 - |f - 1/|V|| if valid, else -1, f the share among |V| valid outcomes; GRPO.

    An answer is valid if it is right and has an outcome; the size of the reward is not used. `valid` is |V|,
    the number of valid outcomes; None counts those in the group (our reading). With two valid outcomes both always earn
    the same, so there is no preference. An outcome rarer than 1/|V| is penalised too, only less than a dominant one.

    Degenerate: groups without a valid answer, and groups of one outcome with equal rewards, get exactly zero.
    Evidence: second-hand, and a re-implementation's code.
    """
    return with_clip(
        clip, aggregation, reward_shaping=(UniformFrequency(valid),), advantages=group_centred(standardise)
    )


TOKEN_BUCKETS = 1024
"""Number of buckets for token counts; tokens are taken modulo this."""


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


def _bucket_counts(tokens: Array, mask: Array) -> Array:
    """Number of tokens in each bucket for each answer of a group, `[G, T]` -> `[G, TOKEN_BUCKETS]` float32."""
    group = len(tokens)
    # Scattering with one combined index is faster than with two.
    bucket = jnp.arange(group)[:, None] * TOKEN_BUCKETS + tokens % TOKEN_BUCKETS
    return jnp.zeros(group * TOKEN_BUCKETS).at[bucket].add(mask).reshape(group, TOKEN_BUCKETS)


def dra_grpo(
    similarity: Literal["outcome", "tokens"] = "outcome",
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """DRA-GRPO (arXiv 2505.09655): r~ = r / sum_j cos(e, e_j), e the outcome, one-hot; j all of the group; then GRPO.

    The paper embeds answers with a sentence encoder. `outcome` uses one-hot vectors of the outcome: IPS, divided by G.
    `tokens` uses counts of the answer's tokens (our reading). The released code sums over a device's batch, which may
    mix prompts; here the sum is over the group.

    Degenerate: groups without reward, and, with `outcome`, groups of one outcome with equal rewards, get exactly zero.
    Evidence: code; the embeddings are our reading.
    """
    return with_clip(
        clip, aggregation, reward_shaping=(SimilarityDiscount(similarity),), advantages=group_centred(standardise)
    )


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


def rep_exp(
    beta: float = 0.01,
    ridge: float = 0.01,
    leave_one_out: bool = False,
    features: Literal["hidden", "outcome"] = "hidden",
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """RepExp (arXiv 2510.11686): r~ = r + beta phi' (ridge I + sum phi_j phi_j')^-1 phi, phi hidden states; GRPO.

    phi is the last layer of the reference policy, the mean over an answer's tokens, less the mean of the group, j all
    of the group; right and wrong answers get the bonus, groups without a correct one do not. `features=outcome` takes
    one-hot outcomes for phi (our reading), where there are no hidden states. The defaults are those of the published
    script; `rep_exp(beta=1.0, leave_one_out=True)` is the released configuration's, with j only the other answers. The
    released code first maps features to 32 or 128 dimensions at random; here is no map.

    The bonus is at most beta (1 - 1/G), or beta (G - 1) with `leave_one_out`. Where all answers differ much it is
    nearly the same for all. Where rewards are equal the standard deviation scales its differences up to full size,
    whatever beta is. On a bandit with `features=outcome` tied arms end alike, and of unequal ones the best is left;
    with the released configuration a wrong arm beside two right ones keeps 0.15 in groups of 8.

    Degenerate: groups of equal rewards get exactly zero if none is correct, or if all answers are equally far from the
    others, as in a group of one outcome with `outcome`.
    Evidence: code (verl-recipe).
    Peers: verl.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(EllipticalBonus(beta, ridge, leave_one_out, features),),
        advantages=group_centred(standardise),
    )


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


def placebo(
    alpha: float = 1.0,
    floor: float = 0.0,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Placebo of IPS (after arXiv 2601.21669): r~ = r w, w the weights of IPS, permuted among rewarded answers; GRPO.

    The weights of the rewarded answers (reward not zero) are those of `ips_grpo` with the same `alpha` and `floor`, in
    random order. If these rewards are equal, r~ has exactly the mean and variance of IPS in every group. A difference
    from GRPO is then due to noise, not to scaling by the inverse probability.

    Degenerate: groups without reward, and groups of one outcome with equal rewards, get exactly zero; if all rewarded
    answers have one outcome, the group gets the same as under IPS.
    Evidence: our reading of "random re-weighting of matched variance".
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(PermutedInverseFrequency(alpha, floor),),
        advantages=group_centred(standardise),
    )
