"""Objectives that compare an answer with others of its stratum, or of its mode."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, finite, non_negative, probability
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import KL, Clip, divergence, with_clip
from ipsrl.objectives.estimators.subgroups import Stratum, normalised_among, stratum_of
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Rollouts, control_token, masked_mean


@dataclasses.dataclass(frozen=True)
class StratifiedNorm(RolloutPart):
    """Blend of a normalisation inside strata and that of the whole group (Stratified GRPO, arXiv 2510.06214).

        A_g = alpha (r_g - mean_k) / std_k  +  (1 - alpha) (r_g - mean) / std,      k the stratum of g

    The first term has mean 0 and variance 1 in each stratum with different rewards, and is 0 in every other stratum.
    The policy chooses the stratum. At alpha = 1 the advantages of each stratum sum to zero, so no gradient prefers one
    stratum over another: the probability of choosing it has expected gradient zero.

    Attributes:
      alpha: weight of the term inside strata, 0 to 1.
      stratum, width: see `stratum_of`.
      standardise: False omits both standard deviations.
    """

    alpha: float = probability(0.8, called="alpha, the weight of the strata,")
    stratum: Stratum = "planning"
    width: int = at_least(1, 1, called="width, the tokens of a stratum,")
    standardise: bool = True
    smallest_group: ClassVar[int] = 2

    def __post_init__(self):
        super().__post_init__()
        if self.stratum == "first_token" and self.width != 1:
            raise ValueError(f"width={self.width} divides token counts, which stratum=first_token does not use")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"planning_mask"} if self.stratum == "planning" else ())

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        key = stratum_of(rollouts, self.stratum, self.width)
        inside = normalised_among(values, key[:, :, None] == key[:, None, :], self.standardise)
        whole = (GroupMeanStd() if self.standardise else GroupMean())(values, rollouts)
        return self.alpha * inside + (1.0 - self.alpha) * whole


def stratified_grpo(
    alpha: float = 0.8,
    stratum: Stratum = "planning",
    width: int = 1,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Stratified GRPO (arXiv 2510.06214): A = alpha norm(r in its stratum) + (1 - alpha) norm(r in its group).

    A search agent's strata are its numbers of tool calls. Here, `stratum` is the number of `planning` tokens, the
    `length` in tokens (both in bins of `width`), or the `first_token`. `standardise=False` omits both standard
    deviations. At alpha = 1 the advantages of each stratum sum to zero, so the policy, which chooses the stratum, never
    learns which one is better. alpha = 0.8 is unverified; sweep it.

    Degenerate: a stratum of one answer, or of equal rewards, has 1 - alpha of GRPO's advantages; equal groups get zero.
    Evidence: second-hand (two sources that agree); alpha, the keys and the bins are our reading.
    """
    return with_clip(clip, aggregation, advantages=StratifiedNorm(alpha, stratum, width, standardise))


def thinks(rollouts: Rollouts, think_token: int) -> Array:
    """`[P, G]` bool, True for answers whose control token is `think_token`, chosen or dictated; all others are in the
    other mode.
    """
    return stratum_of(rollouts, "first_token") == think_token


@dataclasses.dataclass(frozen=True)
class BestOfMode(RolloutPart):
    """A_g = (b_g - mean) / std of the group, b_g = 1 for the best of its mode, else 0 (HGPO, arXiv 2505.14631).

    The best of a mode has the largest reward among the answers in that mode. Ties all get 1 (our reading; the paper
    does not say): if each mode has a single reward, every answer is best and the group gets zero.
    """

    think_token: int = 0
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mode = thinks(rollouts, self.think_token)
        best = jnp.where(
            mode,
            jnp.where(mode, values, -jnp.inf).max(axis=-1, keepdims=True),
            jnp.where(mode, -jnp.inf, values).max(axis=-1, keepdims=True),
        )
        return GroupMeanStd()(all_equal(jnp.stack([values, best], axis=-1)).astype(jnp.float32), rollouts)


@dataclasses.dataclass(frozen=True)
class PreferredMode(RolloutPart):
    """Adds to the control token's advantage whether its mode did better (HGPO, arXiv 2505.14631).

        A_g0 + alpha (m_g - mean) / std,      m_g = 1 where the mode of g is argmax { R_think, R_other + delta }

    R are the mean rewards of the modes in the group: with half of the group in each mode the term is +-alpha. Nothing
    is added if a group has a single mode, or if the two sides tie (our reading).

    Attributes:
      think_token: control token of an answer in thinking mode, see `ipsrl.structures.control_token`.
      delta: head start of the other mode, in units of reward.
      alpha: weight of the term.
    """

    think_token: int = 0
    delta: float = finite(0.2)
    alpha: float = non_negative(1.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mode = thinks(rollouts, self.think_token)
        thinking, other = (masked_mean(rollouts.rewards, members, axis=-1) for members in (mode, ~mode))
        sides = jnp.stack([thinking, other + self.delta], axis=-1)
        comparable = mode.any(axis=-1) & (~mode).any(axis=-1) & ~all_equal(sides)
        preferred = comparable[:, None] & (mode == (sides[:, :1] > sides[:, 1:]))
        between_modes = GroupMeanStd()(preferred.astype(jnp.float32), rollouts)
        return values + jnp.where(control_token(rollouts.token_mask), self.alpha * between_modes[..., None], 0.0)


def hgpo(
    think_token: int = 0,
    delta: float = 0.2,
    alpha: float = 1.0,
    clip: Clip = 0.5,
    kl: float | KL = 0.001,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """HGPO (arXiv 2505.14631): A = norm(best of its mode), + alpha norm(its mode won) on token 1; modes: think or not.

    norm is GRPO's, (x - mean) / std of the group. An answer thinks if its first token is `think_token`; the other mode
    has a head start of `delta` in the comparison of mean rewards. The paper forces half of a group into each mode, as
    environments can. A policy that samples the modes must know both: if no answer begins with `think_token` (never with
    0, the padding of text), what remains is GRPO on being the best of the group. `kl` is the paper's 0.001, of k3.

    Degenerate: a group in one mode, or with a tie between them, has no second term (our reading); with equal rewards
    the first term is zero, and the second prefers not to think, by the head start.
    Evidence: paper; that tied answers are all the best of a mode is our reading.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=BestOfMode(think_token),
        reweighting=(PreferredMode(think_token, delta, alpha),),
        penalties=divergence(kl).penalty,
    )
