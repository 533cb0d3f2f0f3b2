"""Which groups are mastered (DPH-RL, arXiv 2509.07430): prompts that the policy always solves, or nearly so.

A group is mastered where the share of correct answers, those with a reward above zero, reaches `mastered_at`.
"""

import math

from jax import Array


def mastered_groups(rewards: Array, mastered_at: float) -> Array:
    """`[P]` bool, the groups of `[P, G]` rewards with at least the share `mastered_at` above zero."""
    # The small offset undoes the rounding of products such as 0.55 * 20, whose ceiling must be 11.
    return (rewards > 0).sum(axis=-1) >= math.ceil(mastered_at * rewards.shape[-1] - 1e-6)
