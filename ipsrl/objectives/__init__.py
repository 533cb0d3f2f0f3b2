"""Objectives: pure functions of arrays that define what is optimised."""

from ipsrl.objectives.catalog import describe, make, names
from ipsrl.objectives.objective import Objective

__all__ = ["Objective", "describe", "make", "names"]
