"""Parts that compare an answer with those of its own kind: strata of a group, or its two modes."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import at_least, finite, non_negative, probability
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts, masked_sum

Stratum = Literal["length", "planning", "first_token"]


def normalised_among(values: Array, peers: Array, standardise: bool = True) -> Array:
    """(r_g - mean) / std over the peers of each answer, `[P, G]` values and `[P, G, G]` bool -> `[P, G]`.

    `peers[p, g, j]` says that g is compared with j; whoever has peers is one of them. The standard deviation is the
    population's; without it where not `standardise`. Exactly 0 where all peers have the same value, or there are none.
    """
    # What is no peer gets the answer's own value, so that rounding is judged as in a whole group.
    degenerate = all_equal(jnp.where(peers, values[:, None, :], values[:, :, None]))
    count = jnp.maximum(peers.sum(axis=-1), 1)
    mean = masked_sum(values[:, None, :], peers, axis=-1) / count
    centred = jnp.where(degenerate, 0.0, values - mean)
    if not standardise:
        return centred
    variance = masked_sum((values[:, None, :] - mean[..., None]) ** 2, peers, axis=-1) / count
    undefined = degenerate | (variance == 0)
    return jnp.where(undefined, 0.0, centred / jnp.sqrt(jnp.where(undefined, 1.0, variance)))


def stratum_of(rollouts: Rollouts, stratum: Stratum, width: int = 1) -> Array:
    """`[P, G]` int32, the stratum of each answer.

    `length` is its number of tokens and `planning` its number of planning tokens, both divided by `width` and rounded
    down; `first_token` is the first token itself (-1 where there is none).
    """
    if stratum == "first_token":
        return jnp.where(rollouts.token_mask[..., 0], rollouts.tokens[..., 0], -1)
    counted = rollouts.token_mask
    if stratum == "planning":
        counted = counted & rollouts.planning_mask
    return counted.sum(axis=-1) // width


@dataclasses.dataclass(frozen=True)
class StratifiedNorm(RolloutPart):
    """Blend of a normalisation inside strata and that of the whole group (Stratified GRPO, arXiv 2510.06214).

        A_g = alpha (r_g - mean_k) / std_k  +  (1 - alpha) (r_g - mean) / std,      k the stratum of g

    The first term has mean 0 and variance 1 inside each stratum with different rewards and is 0 in every other one.
    The policy chooses the stratum, so at alpha = 1 nothing ever says which stratum is better: the advantages of each
    one sum to zero, and the probability of choosing it gets no expected gradient.

    Attributes:
      alpha: weight of the term inside strata, 0 to 1.
      stratum, width: see `stratum_of`.
      standardise: False leaves both standard deviations out.
    """

    alpha: float = probability(0.8, called="alpha, the weight of the strata,")
    stratum: Stratum = "planning"
    width: int = at_least(1, 1, called="width, the tokens of a stratum,")
    standardise: bool = True
    smallest_group: ClassVar[int] = 2

    def __post_init__(self):
        super().__post_init__()
        if self.stratum == "first_token" and self.width != 1:
            raise ValueError(f"width={self.width} divides numbers of tokens, which stratum=first_token does not count")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"planning_mask"} if self.stratum == "planning" else ())

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        key = stratum_of(rollouts, self.stratum, self.width)
        inside = normalised_among(values, key[:, :, None] == key[:, None, :], self.standardise)
        whole = (GroupMeanStd() if self.standardise else GroupMean())(values, rollouts)
        return self.alpha * inside + (1.0 - self.alpha) * whole


def thinks(rollouts: Rollouts, think_token: int) -> Array:
    """`[P, G]` bool, True for answers that begin with `think_token`; every other answer is in the other mode."""
    return rollouts.token_mask[..., 0] & (rollouts.tokens[..., 0] == think_token)


@dataclasses.dataclass(frozen=True)
class BestOfMode(RolloutPart):
    """A_g = (b_g - mean) / std of the group, b_g = 1 for the best of its mode, else 0 (HGPO, arXiv 2505.14631).

    The best of a mode has the largest reward among the answers in that mode. Ties, on which the paper is silent, all
    get 1 (our reading): where each mode has one reward only, everybody is best, and the group gets zero.
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
    """Adds, to the first token, whether its mode did better (HGPO, arXiv 2505.14631): `[P, G, T]` -> `[P, G, T]`.

        A_g0 + alpha (m_g - mean) / std,      m_g = 1 where the mode of g is argmax { R_think, R_other + delta }

    R are mean rewards of the modes in the group: with half of it in each mode the term is +-alpha. Nothing is added
    where a group has one mode only, or where the two sides tie (our reading).

    Attributes:
      think_token: what an answer in thinking mode begins with.
      delta: head start of the other mode, in units of reward.
      alpha: weight of the term.
    """

    think_token: int = 0
    delta: float = finite(0.2)
    alpha: float = non_negative(1.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mode = thinks(rollouts, self.think_token)

        def mean_reward(members):
            return masked_sum(rollouts.rewards, members, axis=-1) / jnp.maximum(members.sum(axis=-1), 1)

        sides = jnp.stack([mean_reward(mode), mean_reward(~mode) + self.delta], axis=-1)
        comparable = mode.any(axis=-1) & (~mode).any(axis=-1) & ~all_equal(sides)
        preferred = comparable[:, None] & (mode == (sides[:, :1] > sides[:, 1:]))
        between_modes = GroupMeanStd()(preferred.astype(jnp.float32), rollouts)
        return values.at[..., 0].add(self.alpha * between_modes)
