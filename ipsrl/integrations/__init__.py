"""Objectives inside the trainers of other people: TRL, verl, Tunix, and any that takes advantages.

Each trainer has a module of its own, which imports it; `import ipsrl` imports none of them.
"""

from ipsrl.integrations.advantages_only import advantages

__all__ = ["advantages"]
