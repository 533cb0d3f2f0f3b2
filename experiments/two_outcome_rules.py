"""What the experiments with sampled training of two outcomes share: their rules, and checks of their settings."""

import math

import numpy as np

from experiments.launch import read_numbers, read_seeds
from ipsrl.dynamics.finite_groups import Rule
from ipsrl.dynamics.two_outcome_training import LARGEST_GROUP

OBJECTIVES: dict[Rule, str] = {
    "no baseline": "ips_reinforce",
    "group mean": "ips_dr_grpo",
    "group mean and std": "ips_grpo",
}
"""Names in the catalog of inverse probability scaling by counts."""


def require_ordered_rewards(rewards: str) -> None:
    """Raises ValueError unless --rewards are two finite positive numbers and the first is the larger one."""
    better, worse = read_numbers(rewards, count=2)
    if not math.inf > better > worse > 0:
        raise ValueError(f"--rewards={rewards} must be finite and positive, and the first the larger one")


def require_rising_groups(group_sizes: str) -> None:
    """Raises ValueError unless --group_sizes rise and can be sampled."""
    sizes = read_numbers(group_sizes, int)
    if sizes[0] < 2 or sizes[-1] > LARGEST_GROUP or np.any(np.diff(sizes) <= 0):
        raise ValueError(f"--group_sizes={group_sizes} must be rising numbers from 2 to {LARGEST_GROUP}")


def require_several_seeds(name: str, seeds: str) -> None:
    """Raises ValueError where --`name` has one seed only."""
    if len(read_seeds(seeds)) < 2:
        raise ValueError(f"--{name}={seeds} names one run, but an interval needs two")
