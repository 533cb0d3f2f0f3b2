"""Objectives of sets of answers: an answer's advantage is what it adds to the sets of the group that hold it.

Papers estimate these from random sets of k answers; here they are exact means over all sets of k in the group. Correct
answers are those of `Rollouts.right`.
"""

import dataclasses
import itertools
from math import comb, sqrt
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import at_least
from ipsrl.objectives.advantages import GroupMean, group_centred
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.ties import all_equal, rounding
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class PassAtK(RolloutPart):
    """Advantages of pass@k: mean of (set succeeds - rho) / s over sets of k that contain the answer (arXiv 2508.10751).

        rho = 1 - C(G-c, k) / C(G, k),    s = sqrt(rho (1 - rho)),    c correct answers among G
        A = (1 - rho) / s  if correct,    (1 - rho - C(G-c-1, k-1) / C(G-1, k-1)) / s = -c/(G-c) (1 - rho) / s  if not

    Zero if every set fails (c = 0) or every set succeeds (G - c < k). With k = 1 and rewards 0 and 1 this is GRPO.
    """

    k: int = at_least(1, 2, called="k, the size of a set,")

    @property
    def smallest_group(self) -> int:
        return self.k + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        correct = rollouts.right
        # Exact tables by the number of correct answers; they do not depend on data.
        group = values.shape[-1]
        of_correct, of_wrong = np.transpose([self._advantages(number, group) for number in range(group + 1)])
        count = correct.sum(axis=-1, keepdims=True)
        return jnp.where(correct, jnp.float32(of_correct)[count], jnp.float32(of_wrong)[count])

    def _advantages(self, correct: int, group: int) -> tuple[float, float]:
        """Advantages of a correct and of a wrong answer in a group with `correct` correct answers."""
        wrong = group - correct
        if correct == 0 or wrong < self.k:
            return 0.0, 0.0
        # May be too small for a float, and then is 0, as both advantages are.
        fails = comb(wrong, self.k) / comb(group, self.k)
        of_correct = sqrt(fails / (1.0 - fails))
        return of_correct, -correct / wrong * of_correct


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


@dataclasses.dataclass(frozen=True)
class BestOfSets(RolloutPart):
    """A_g = k/G E[ max(S) | o_g in S ] - baseline, S uniform over the sets of k of the group: PKPO (arXiv 2505.15201).

        rest of the set:  k/G E[max(S without o_g)]                    A_g = k/G E[ max(r_g - max(rest), 0) ] >= 0
        other sets:       k/(G-1) E[max(S)], S of k of the others      needs G > k
        none:             0

    The sum over a group's answers of A_g grad log pi is an unbiased estimate of the gradient of E[max of k answers].
    Every baseline is independent of the answer that it is subtracted from. With the first, only answers that can be
    the best of a set by themselves get more than zero, and groups with equal rewards get exactly zero; with the second,
    such groups get -k r / (G (G-1)). Closed form: of the G-1 others, j is the best of a set of k-1 with probability
    C(number of others below j, k-2) / C(G-1, k-1).

    Attributes:
      k: the size of a set; None for the whole group. Then, and with the first baseline, the only answer with the
        largest reward gets its distance to the second largest, and all others zero.
      baseline: as above.
      graded: the best is the largest reward; otherwise 1 if an answer of the set is correct.
      standardise: divides by the standard deviation of the group's rewards (the population's; no epsilon is added).
    """

    k: int | None = at_least(2, None, called="k, the size of a set,")
    baseline: Literal["rest_of_set", "other_sets", "none"] = "rest_of_set"
    graded: bool = False
    standardise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is None and self.baseline == "other_sets":
            raise ValueError("baseline=other_sets needs a k below the group's size, but k is None, the whole group")

    @property
    def smallest_group(self) -> int:
        return (self.k or 2) + (self.baseline == "other_sets")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        rewards = values if self.graded else rollouts.right.astype(jnp.float32)
        group = values.shape[-1]
        k = group if self.k is None else self.k
        # Among equal rewards it does not matter which one is called the best.
        rank = jnp.argsort(jnp.argsort(rewards, axis=-1), axis=-1)
        own, other = rank[:, :, None], rank[:, None, :]
        below = other - (own < other)

        def is_best_of(drawn: int) -> Array:
            """`[P, G, G]`, the probability that j is the best of `drawn` others of an answer."""
            table = [comb(number, drawn - 1) / comb(group - 1, drawn) for number in range(group)]
            return jnp.where(own == other, 0.0, jnp.float32(np.array(table))[below])

        mine, others = rewards[:, :, None], rewards[:, None, :]
        if self.baseline == "rest_of_set":
            ahead = mine - others > rounding(rewards)[..., None]
            gained = jnp.where(ahead, mine - others, 0.0)
            advantages = k / group * (is_best_of(k - 1) * gained).sum(axis=-1)
        else:
            advantages = k / group * (is_best_of(k - 1) * jnp.maximum(mine, others)).sum(axis=-1)
        if self.baseline == "other_sets":
            advantages -= k / (group - 1) * (is_best_of(k) * others).sum(axis=-1)
        if not self.standardise:
            return advantages
        std = values.std(axis=-1, keepdims=True)
        silent = all_equal(values)[:, None] | (std == 0)
        return jnp.where(silent, 0.0, advantages / jnp.where(silent, 1.0, std))


def top_one(
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GRPO on the best answer (arXiv 2503.19595): A = (r - second r) / group std for the best r, else 0.

    verl calls it `grpo_passk`. Without the std it estimates the gradient of the mean of the best of G rewards: it is
    `pkpo(k=G, graded=True)`. With rewards 0 and 1 only groups with exactly one correct answer teach anything. The std
    is the population's, and no epsilon is added; verl divides by that of G - 1, and adds 1e-6.

    Degenerate: groups in which two answers share the largest reward get exactly zero.
    Evidence: code (verl).
    Peers: verl.
    """
    return with_clip(clip, aggregation, advantages=BestOfSets(graded=True, standardise=standardise))


def pkpo(
    k: int = 2,
    baseline: Literal["rest_of_set", "other_sets", "none"] = "rest_of_set",
    graded: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """PKPO (arXiv 2505.15201): A = k/G E[max(S) - max(S without o) | o in S], S any k of the group, max(S) its best r.

    The sum over a group of A grad log pi is an unbiased estimate of the gradient of pass@k, or with `graded` of that of
    the mean of the best of k rewards. With `baseline=none` a correct answer gets k/G and a wrong one k/G times the
    share of sets of k - 1 others with a correct answer; `rest_of_set` subtracts k/G times that share for all, so that
    wrong answers get zero; `other_sets` subtracts k/(G-1) pass@k of the others. With rewards 0 and 1 and k of G answers
    it is a weight of the prompt: all correct answers get the same. `pass_at_k` is another one, standardised. The
    default of k is our choice.

    Degenerate: groups whose rewards are all equal get zero by `rest_of_set`; by the others, only those without reward.
    Evidence: second-hand (equations, and re-implementations of its listing).
    """
    return with_clip(clip, aggregation, advantages=BestOfSets(k, baseline, graded))


@dataclasses.dataclass(frozen=True)
class BestOfSetsByWeights(RolloutPart):
    """A_g = E[f(S) | o_g in S] - E[f(S)], f(S) = mean over w of max of w . r in S: VPO (arXiv 2605.22817).

    S is uniform over the sets of k of the group, and w over `weight_vectors`, a flat Dirichlet distribution on a grid.
    The advantages of a group add up to zero; equal rewards get exactly zero. The mean of A_g grad log pi over a group
    is an unbiased estimate of (1/k - 1/G) times the gradient of E[f(k answers)].

    Attributes:
      k: the size of a set, below that of the group: with the whole group every advantage would be zero.
      divisions: of the grid; 1 leaves the mean of an answer's rewards.
    """

    k: int = at_least(2, 2, called="k, the size of a set,")
    divisions: int = at_least(1, 16)
    needs: ClassVar[frozenset[str]] = frozenset({"reward_parts"})

    @property
    def smallest_group(self) -> int:
        return self.k + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        parts = rollouts.reward_parts.astype(values.dtype)
        group, number = parts.shape[-2:]
        # Relative to the group's smallest, so that what is equal for all its answers adds exactly nothing.
        equal = all_equal(parts.mT)[:, None]
        parts = jnp.where(equal, 0.0, parts - parts.min(axis=-2, keepdims=True))
        best = BestOfSets(self.k, baseline="none", graded=True)
        vectors = jnp.asarray(weight_vectors(number, self.divisions), parts.dtype)
        worth = group / self.k * jax.vmap(lambda weights: best(parts @ weights, rollouts))(vectors).mean(axis=0)
        return GroupMean()(worth, rollouts)


def weight_vectors(number: int, divisions: int) -> np.ndarray:
    """`[V, M]`, the points (c + 1/M) / divisions, c all vectors of M whole numbers >= 0 whose sum is divisions - 1.

    Each adds up to 1, and their mean is 1/M everywhere. V = C(divisions + M - 2, M - 1); for M = 2 they are the middles
    of equal parts of the line between (1, 0) and (0, 1).
    """
    places = divisions + number - 2
    bars = itertools.combinations(range(places), number - 1)
    counts = np.diff([(-1, *chosen, places) for chosen in bars], axis=-1) - 1
    return (counts + 1 / number) / divisions


def vector_po(
    k: int = 2,
    divisions: int = 16,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """VPO (arXiv 2605.22817): A = E[f(S) | o in S] - E[f(S)], f = mean_w max_S w . r, w weights, S k of G.

    r are the M rewards of an answer, and w ~ Dirichlet(1, .., 1): a set is worth more if each of its answers is best
    for some weights. The mean over w is that over a grid of `divisions` to a side, C(divisions + M - 2, M - 1) vectors
    in all. In the paper a set is sampled as one answer; here sets are all those of k in the group, as in Poly-PPO, and
    nothing divides by a standard deviation (our reading). The defaults of `k` and `divisions` are our choice.

    Degenerate: groups whose answers are equal in each reward get exactly zero.
    Evidence: second-hand; the flat Dirichlet is our reading, the exact mean over sets is derived.
    """
    return with_clip(clip, aggregation, advantages=BestOfSetsByWeights(k, divisions))


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
            """The probabilities `[P, G]` that the rest of a set with `given` fixed members contains the outcome of each
            sample if no fixed member does, and `[P, 1]`, their sum over the outcomes of the group.
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
