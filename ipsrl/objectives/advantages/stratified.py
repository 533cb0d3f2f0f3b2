"""Advantages within strata of a group, or within its two modes: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import at_least, probability
from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd
from ipsrl.objectives.estimators.subgroups import Stratum, normalised_among, stratum_of, thinks
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts


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
