"""Mastered groups (DPH-RL, arXiv 2509.07430): prompts that the policy solves always or nearly always.

A group is mastered if its share of correct answers (reward above zero) reaches `mastered_at`.
"""

import math

from jax import Array


def mastered_groups(rewards: Array, mastered_at: float) -> Array:
    """`[P]` bool, the groups of `[P, G]` rewards whose share above zero is at least `mastered_at`."""
    # The offset undoes rounding in products such as 0.55 * 20, whose ceiling must be 11.
    return (rewards > 0).sum(axis=-1) >= math.ceil(mastered_at * rewards.shape[-1] - 1e-6)
