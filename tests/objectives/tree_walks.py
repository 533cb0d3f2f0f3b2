"""Every walk of a tree, as rollouts of one group: sums over it are exact expectations."""

import jax

from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.structures import Rollouts


def every_walk(tree, table=None):
    """Rollouts of one group that holds every walk of the tree once, under a policy `[S, V]` of log-probabilities.

    By default a random one.
    """
    if table is None:
        table = jax.random.normal(jax.random.key(0), (tree.num_observations, tree.vocabulary_size))
    trajectories = every_trajectory(tree, table)
    return Rollouts.of(trajectories, tree.verify(trajectories))
