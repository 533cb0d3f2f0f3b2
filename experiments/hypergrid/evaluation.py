"""Evaluation of a policy on a hypergrid: exact distances to the reward-proportional distribution of final cells."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.measures import distances, diversity
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_table import outcome_probs
from ipsrl.records.evaluation import Evaluation

probs_of_cells = jax.jit(outcome_probs, static_argnums=(0, 1))
"""(environment, policy, parameters) -> `[K]`, the exact probability of every final cell."""


@functools.cache
def target_probs(environment: Hypergrid) -> np.ndarray:
    """`[K]`, of final cells in proportion to their rewards."""
    return environment.outcome_space(0).target


def evaluate_hypergrid(
    environment: Hypergrid, policy: Policy, step: int, parameters: Parameters
) -> Evaluation:
    """Distances of the policy's distribution to the reward-proportional one, and how much of the grid it covers."""
    probs = probs_of_cells(environment, policy, parameters)
    target = target_probs(environment)
    measured = {
        "l1_total": distances.total_l1(probs, target),
        "l1_per_cell": distances.total_l1(probs, target) / len(target),
        "total_variation": distances.total_variation(probs, target),
        "forward_kl": distances.forward_kl(probs, target),
        "reverse_kl": distances.reverse_kl(probs, target),
        "jensen_shannon": jensen_shannon(probs, target),
        # A mode is found where it has half of the probability that it should have.
        "modes_found": (environment.modes() & (probs > target / 2)).sum(),
        # A cell is visited where 10,000 trajectories are expected to end in it once.
        "cells_visited": (probs > 1e-4).sum(),
        "effective_cells": diversity.effective_outcomes_of_distribution(probs),
        "largest_cell": probs.max(),
    }
    return Evaluation(
        {name: float(value) for name, value in measured.items()}, np.sort(probs)[::-1]
    )


def jensen_shannon(probs: Array, target: Array) -> Array:
    """(KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2, nats, in [0, ln 2]."""
    middle = (probs + target) / 2
    # Half of the least numbers is flushed to zero, where a distribution must not miss anything.
    middle = jnp.where(middle > 0, middle, probs + target)
    return (distances.forward_kl(middle, probs) + distances.forward_kl(middle, target)) / 2
