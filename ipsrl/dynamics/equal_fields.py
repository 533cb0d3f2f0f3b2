"""Fields that are recognised by their values: many objectives have one field, and its flows are followed once."""

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable
from typing import Self, TypeVar

import numpy as np

from ipsrl.dynamics.field import Field

T = TypeVar("T")

PROBES = 240
"""Number of policies at which fields are compared."""
SPREADS = 0.1, 6.0
"""Standard deviations of the logits of the first probe and of the last, which are normal and fixed: from nearly uniform
policies to nearly collapsed ones, so that thresholds of probabilities, ratios and entropies lie between probes.
"""
DIGITS = 9
"""Decimal digits, relative to the largest speed, to which equal fields agree."""


@dataclasses.dataclass(frozen=True)
class _Recognised:
    """A field, which equals others with the same velocities at the probes."""

    values: Hashable
    field: Field = dataclasses.field(compare=False)

    @classmethod
    def of(cls, field: Field) -> Self:
        logits = np.random.default_rng(0).normal(size=(PROBES, math.prod(field.table_shape)))
        logits *= np.geomspace(*SPREADS, PROBES)[:, None]
        velocity = field(logits)
        speed = np.abs(velocity).max() or 1.0
        # Adding 0 turns -0 into 0, whose bytes differ.
        relative = np.round(velocity / speed, DIGITS) + 0.0
        kind = field.rewards, field.steps, field.environment
        return cls((*kind, f"{speed:.{DIGITS}g}", relative.tobytes()), field)


def once_for_equal(function: Callable[..., T]) -> Callable[..., T]:
    """Makes a function of fields compute once for fields that are equal at some policies, and keep the result.

    Fields are equal if rewards, steps on a batch, environment and, to nine digits, the velocities at `PROBES` policies
    are. The name of the objective, its group size and its reference policy do not matter besides. Fields that differ
    between the probes alone, such as by two thresholds that are close to each other, are taken for equal.
    """

    @functools.cache
    def of_recognised(*fields):
        return function(*(recognised.field for recognised in fields))

    @functools.wraps(function)
    def of_fields(*fields):
        return of_recognised(*map(_Recognised.of, fields))

    return of_fields
