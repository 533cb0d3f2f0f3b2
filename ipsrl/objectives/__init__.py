"""Objectives: pure functions of arrays that define what is optimised."""

from ipsrl.objectives.catalog import describe, make, make_each, names
from ipsrl.objectives.objective import Objective
