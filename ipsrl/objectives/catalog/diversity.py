"""Objectives that keep several correct answers likely: the peers of inverse probability scaling.

Correct answers are those of `Rollouts.right`. `standardise` divides advantages by the group's standard deviation, so
that every peer can be compared with and without it.
"""

import dataclasses
from math import comb
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import at_least
from ipsrl.objectives.advantages.baselines import group_centred
from ipsrl.objectives.advantages.set_advantages import PassAtK
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, divergence, with_clip
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.objective import Objective, RolloutPart
from ipsrl.objectives.reweighting.diversity_weights import UniformCorrect
from ipsrl.objectives.shaping.diversity_rewards import (
    DistinctShare,
    EllipticalBonus,
    PermutedInverseFrequency,
    SimilarityDiscount,
    UniformFrequency,
    Unlikeliness,
)
from ipsrl.structures import Rollouts

FLOOR = 0.1


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


def pass_at_k(
    k: int = 2,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Pass@k training (arXiv 2508.10751): A = E[(pass@k of S - its mean) / its std | o in S], S any k of the group.

    The mean is the group's pass@k, in closed form from its number of correct answers. Only correctness matters, and all
    correct answers get the same. k = 1 gives GRPO with rewards 0 and 1. The default k is our choice. The released code
    adds 1e-6 to the standard deviation; here nothing is added.

    Degenerate: groups without a correct answer, or with fewer than k wrong ones, get exactly zero.
    Evidence: code.
    """
    return with_clip(clip, aggregation, advantages=PassAtK(k))


def unlikeliness(
    beta: float = 0.25,
    standardise: bool = True,
    kl: float = 0.0,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Unlikeliness reward (arXiv 2506.02355): r~ = r (1 - beta rank / G), rank 0 least likely of its group; then GRPO.

    Ranks order the length-averaged behaviour log-probabilities; ties share the mean of their ranks, so the order within
    the group does not matter (our reading). The paper uses G = 32, two epochs on each batch and 0.1 of the k3
    divergence from a reference: `kl=0.1`. In a group that is all correct, the standard deviation scales small
    differences up to full-size advantages.

    Degenerate: groups without reward get exactly zero; equal rewards do not silence a group.
    Evidence: code.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(Unlikeliness(beta),),
        advantages=group_centred(standardise),
        penalties=divergence(kl).penalty,
    )


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
class PolychromicScore(RolloutPart):
    """Average score of the sets that contain an answer: E[ f(S) | o_g in S ] (arXiv 2509.25424, on a bandit).

        f(S) = (mean reward of S) (distinct outcomes in S) / n,    S uniform over the sets of n answers of the group

    Its mean over the group is E[f(S)], so the group mean as baseline gives the advantage that the paper assigns to all
    members of a set. Closed form: with m(c) samples of outcome c, a set of n - 1 others lacks c with probability
    C(G-1-m, n-1) / C(G-1, n-1), and so on.
    """

    set_size: int = at_least(2, 2, called="set_size, the answers of a set,")

    @property
    def smallest_group(self) -> int:
        return self.set_size + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        group, size = values.shape[-1], self.set_size
        alike = same_outcome(rollouts.outcome_id)
        multiplicity = alike.sum(axis=-1)

        def others_show(given: int) -> tuple[Array, Array]:
            """For a set with `given` fixed members: `[P, G]`, the probability that the rest of it contains the outcome
            of each sample if no fixed member does, and `[P, 1]`, the sum of these probabilities over the outcomes of
            the group.
            """
            rest, draws = group - given, size - given
            table = [1.0 - comb(max(rest - m, 0), draws) / comb(rest, draws) for m in range(group + 1)]
            shown = jnp.float32(np.array(table))[multiplicity]
            return shown, (shown / multiplicity).sum(axis=-1, keepdims=True)

        # Expected distinct outcomes of a set with one, and with two, fixed members: theirs and those of the rest.
        shown, distinct = others_show(1)
        with_one = 1.0 + distinct - shown
        shown, distinct = others_show(2)
        own, other = shown[:, :, None], shown[:, None, :]
        with_two = jnp.where(alike, 1.0 + distinct[..., None] - own, 2.0 + distinct[..., None] - own - other)
        pairs = values[:, None, :] * with_two * (1.0 - jnp.eye(group))
        others = (size - 1) / (group - 1) * pairs.sum(axis=-1)
        return (values * with_one + others) / size**2


def polychromic(
    set_size: int = 2,
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Polychromic (arXiv 2509.25424): A = E[f(S) | o in S] - E[f(S)], f = mean r * distinct share, S k of the group.

    Bandit form of Poly-PPO: the group replaces the trajectories sampled from one state, an outcome replaces a
    trajectory. The paper samples sets of `set_size`; this is the exact mean over all sets in the group (our reading).
    The default of `set_size` is our choice.

    Degenerate: groups without reward, and groups of one outcome with equal rewards, get exactly zero.
    Evidence: second-hand; the exact mean over sets is derived.
    """
    return with_clip(
        clip, aggregation, reward_shaping=(PolychromicScore(set_size),), advantages=group_centred(standardise)
    )


def ucpo(
    tau: float = 0.2,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """UCPO (arXiv 2605.00365): GRPO; A of n correct answers times 1 - tau + tau n (1/q) / sum 1/q, q their likelihoods.

    q is the softmax, over the correct answers, of their length-averaged log-probabilities under the behaviour policy.
    The weights have mean 1. The closest peer of IPS: it uses the model's probability instead of the frequency.

    Degenerate: groups whose rewards are all equal get exactly zero.
    Evidence: code.
    """
    return with_clip(clip, aggregation, advantages=group_centred(standardise), reweighting=(UniformCorrect(tau),))


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
