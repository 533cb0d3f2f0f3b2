"""The step size at which few samples kill an outcome; setting: arXiv 2601.21669, derived."""

import math

import numpy as np
from scipy.special import lambertw

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.softmax.finite_groups import checked_weights


@checked
def largest_surviving_step(rewards: tuple[float, float], weights: np.ndarray) -> float:
    """The step size below which the second of two outcomes survives training without a baseline, in groups of G.

        G (1 - e^(-2 h r_2 omega(1) / G)) > 2 h r_1 omega(G)

    The condition says that 1 / p_2 falls on average when p_2 is small: a group without the outcome multiplies it by
    e^(2 h r_1 omega(G) p_2), and a group with one sample of it (probability G p_2) by e^(-2 h r_2 omega(1) / G). As h
    -> 0 this is r_2 omega(1) > r_1 omega(G), the limit of `survival`, which a finite step changes by a share of about h
    r_2 omega(1) / G. With x = r_2 omega(1) / (r_1 omega(G)) and Lambert's W,

        h = G / (2 r_2 omega(1)) (x + W(-x e^(-x)))

    Returns:
      0.0 if the outcome dies out at every step size.

    Raises:
      ValueError: a reward or a weight is not positive.
    """
    (first, second), weights = rewards, checked_weights(weights)
    if not min(first, second) > 0 or not np.all(weights > 0):
        raise ValueError(f"rewards {rewards} and weights must be positive")
    advantage = second * weights[0] / (first * weights[-1])
    if advantage <= 1:
        return 0.0
    root = advantage + lambertw(-advantage * math.exp(-advantage)).real
    return float(len(weights) / (2 * second * weights[0]) * root)
