"""Advantages that several families share: a baseline and a scale for the shaped rewards, `[P, G]` -> `[P, G]`.

A group whose rewards are all equal holds no preference: every part with a baseline gives it exactly zero.
"""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import finite, positive
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class CappedPart(RolloutPart):
    """Base of advantages whose |A| is capped by `limit`, if it is given."""

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
