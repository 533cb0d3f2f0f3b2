"""The binary case of the verdicts beside another prompt: does what is learned there break a tie here?"""

import functools

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.cases import CASES, STARTS, Case, ends_of
from ipsrl.dynamics.equal_fields import once_for_equal
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.shared_prompts import SharedPrompts
from ipsrl.objectives.objective import Objective
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers

BESIDE, START_BESIDE, OVERLAP = (1.0, 0.0, 0.0), (0.2, 0.3, 0.5), 0.5
"""Rewards and start of the other prompt of `beside_another`, and the overlap."""


@checked
def beside_another(
    objective: Objective, group_size: int, off_policy: OffPolicyAnswers | None = None
) -> Case:
    """The binary case of the verdicts beside a prompt that shares parameters, and of which only one answer is right.

    That answer is one of the two which are equally good here: does what is learned there break the tie?

    Args:
      objective, group_size, off_policy: as in `verdict`.
    """
    field = functools.partial(
        Field, objective, group_size=group_size, off_policy=off_policy, at_once=len(STARTS)
    )
    return _beside(field(CASES["binary"]), field(BESIDE))


@once_for_equal
def _beside(prompt: Field, other: Field) -> Case:
    starts = np.concatenate([STARTS, np.tile(START_BESIDE, (len(STARTS), 1))], axis=1)
    ends, exponents = ends_of(SharedPrompts((prompt, other), OVERLAP), starts)
    outcomes = len(BESIDE)
    return Case(prompt, ends[:, :outcomes], exponents[:, :outcomes])
