"""WHAT is optimised: pure functions of arrays."""

from ipsrl.objectives.catalog import describe, make, make_each, names
from ipsrl.objectives.objective import Objective

__all__ = ["Objective", "describe", "make", "make_each", "names"]
