"""Objectives inside the trainers of other people: TRL, verl, Tunix, and any that takes advantages.

A trainer has a module of its own, which imports it; nothing else does.
"""

from ipsrl.integrations.advantages_only import advantages
