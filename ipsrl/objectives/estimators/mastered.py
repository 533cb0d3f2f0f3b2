"""Mastered groups (DPH-RL, arXiv 2509.07430): prompts that the policy solves always or nearly always.

A group is mastered if its share of correct answers (`Rollouts.right`) reaches `mastered_at`.
"""

import math

from jax import Array


def mastered_groups(correct: Array, mastered_at: float) -> Array:
    """`[P]` bool, the groups whose share of correct answers, `[P, G]` bool, is at least `mastered_at`."""
    # The offset undoes rounding in products such as 0.55 * 20, whose ceiling must be 11.
    return correct.sum(axis=-1) >= math.ceil(mastered_at * correct.shape[-1] - 1e-6)
