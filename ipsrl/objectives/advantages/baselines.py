"""Parts that subtract a baseline from rewards and may scale them: `[P, G]` -> `[P, G]`.

A group whose rewards are all equal holds no preference: every part with a baseline gives it exactly zero.
"""

import dataclasses
import math
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import finite, positive, share
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class CappedPart(RolloutPart):
    """Base of the parts below that IPS uses; `limit`, if given, caps |A|."""

    limit: float | None = positive(None, called="the cap on advantages")

    def capped(self, advantages: Array) -> Array:
        """The advantages clipped to [-limit, limit]."""
        return advantages if self.limit is None else jnp.clip(advantages, -self.limit, self.limit)


@dataclasses.dataclass(frozen=True)
class NoBaseline(CappedPart):
    """A = r: plain REINFORCE, rule V of the finite-group theory. Only groups without any reward get zero."""

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return self.capped(values)


@dataclasses.dataclass(frozen=True)
class AboveGreedy(RolloutPart):
    """A_g = r_g - r(greedy answer): ReMax (arXiv 2310.10505); the baseline does not depend on the group.

    Groups whose rewards are all the greedy answer's get exactly zero.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"greedy_rewards"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        greedy = rollouts.greedy_rewards[:, None]
        silent = all_equal(jnp.concatenate([values, greedy], axis=-1))
        return jnp.where(silent[:, None], 0.0, values - greedy)


@dataclasses.dataclass(frozen=True)
class GroupMean(CappedPart):
    """A_g = r_g - mean of the group: Dr. GRPO (arXiv 2503.20783), rule B of the finite-group theory."""

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        centred = values - values.mean(axis=-1, keepdims=True)
        return self.capped(jnp.where(all_equal(values)[:, None], 0.0, centred))


@dataclasses.dataclass(frozen=True)
class GroupMeanStd(CappedPart):
    """A_g = (r_g - mean) / std of the group: GRPO (arXiv 2402.03300), rule N of the finite-group theory.

    The standard deviation is the population's (divides by G); `unbiased=True` divides by G - 1, as TRL and verl do.
    No epsilon is added. `virtual` is the reward of one more answer, which counts in mean and standard deviation alone
    (NGRPO, arXiv 2509.18851); then groups whose rewards are all equal get zero only if they are equal to it.
    """

    CALLED: ClassVar[str] = "group mean and std"
    unbiased: bool = False
    virtual: float | None = finite(None, called="the reward of the virtual answer")
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        compared = values if self.virtual is None else jnp.pad(values, [(0, 0), (0, 1)], constant_values=self.virtual)
        degenerate = all_equal(compared)[:, None]
        centred = values - compared.mean(axis=-1, keepdims=True)
        std = compared.std(axis=-1, keepdims=True, ddof=1 if self.unbiased else 0)
        # The computed standard deviation may be 0 for rewards that differ by less than the float32 spacing at their
        # mean.
        return self.capped(jnp.where(degenerate | (std == 0), 0.0, centred / jnp.where(std == 0, 1.0, std)))


@dataclasses.dataclass(frozen=True)
class GroupQuantileStd(RolloutPart):
    """A_g = (r_g - K-quantile of the group) / std of the group: QAE (arXiv 2509.22611).

    The quantile is the lowest reward of the group which at least a share K of its rewards do not exceed, so it is one
    of them. With rewards 0 and 1 it is 0 if the share of correct answers is at most 1 - K, and 1 above. The standard
    deviation is as in `GroupMeanStd`.
    """

    quantile: float = share(0.4)
    unbiased: bool = False
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        # The offset undoes rounding in products such as 0.55 * 20, whose ceiling must be 11.
        rank = max(math.ceil(self.quantile * values.shape[-1] - 1e-6), 1)
        above = values - jnp.sort(values, axis=-1)[:, rank - 1, None]
        std = values.std(axis=-1, keepdims=True, ddof=1 if self.unbiased else 0)
        silent = all_equal(values)[:, None] | (std == 0)
        return jnp.where(silent, 0.0, above / jnp.where(std == 0, 1.0, std))


@dataclasses.dataclass(frozen=True)
class GroupMeanByNonzero(RolloutPart):
    """A_g = (r_g - mean of the group) * answers of the batch / those whose reward is not 0: GPG (arXiv 2504.02546)."""

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return GroupMean()(values, rollouts) * values.size / jnp.maximum((values != 0).sum(), 1)


@dataclasses.dataclass(frozen=True)
class LengthWeightedMean(RolloutPart):
    """A_g = r_g - sum(length r) / sum(length) over the group: OPO (arXiv 2505.23585).

    The baseline of least variance if the squared norm of an answer's gradient is proportional to its number of tokens.
    """

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        length = rollouts.token_mask.sum(axis=-1)
        mean = (length * values).sum(axis=-1, keepdims=True) / jnp.maximum(length.sum(axis=-1, keepdims=True), 1)
        return jnp.where(all_equal(values)[:, None], 0.0, values - mean)


@dataclasses.dataclass(frozen=True)
class GroupMeanBatchStd(RolloutPart):
    """A_g = (r_g - mean of the group) / std of all rewards of the batch: Lite PPO (arXiv 2508.08221).

    The standard deviation is that of the uncentred rewards over all groups of the batch. `unbiased=True` divides by
    their number minus one. No epsilon is added.
    """

    unbiased: bool = False
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        centred = values - values.mean(axis=-1, keepdims=True)
        std = values.std(ddof=1 if self.unbiased else 0)
        degenerate = all_equal(values)[:, None] | (std == 0)
        return jnp.where(degenerate, 0.0, centred / jnp.where(std == 0, 1.0, std))


@dataclasses.dataclass(frozen=True)
class LeaveOneOut(RolloutPart):
    """A_g = r_g - mean of the others in the group = G / (G - 1) * (r_g - mean): RLOO (arXiv 2402.14740).

    The baseline does not depend on the sample it is subtracted from, so the expected update is that of the plain
    return.
    """

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        group = values.shape[-1]
        return group / (group - 1) * GroupMean()(values, rollouts)


def group_centred(standardise: bool) -> RolloutPart:
    """The group's mean as baseline; with `standardise`, its standard deviation as scale."""
    return GroupMeanStd() if standardise else GroupMean()
