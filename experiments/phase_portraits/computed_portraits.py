"""Phase portraits computed from a field: its flow on a lattice of policies, along paths, and where it rests."""

import numpy as np
from scipy.stats.qmc import Halton

from ipsrl.dynamics.field import AT_REST, Field, follow, growth
from ipsrl.dynamics.portraits import Portrait, lattice
from ipsrl.dynamics.rest_points import NOTHING, rest_points


def portrait(objective: str, field: Field, intervals: int, starts: np.ndarray) -> Portrait:
    """The portrait of a field over three outcomes.

    Args:
      objective: name of the field's objective.
      field: defined on the edges as well.
      intervals: of the lattice on which the velocity is found.
      starts: `[S, 3]`, of the paths.
    """
    policies = lattice(intervals)
    updates = field(np.log(np.maximum(policies, NOTHING)))
    velocity = policies * growth(policies, updates)
    speed = np.linalg.norm(velocity, axis=1)
    # Separately: a path that stops at a discontinuity would stop the others as well.
    flows = [follow(field, start[None]) for start in starts]
    return Portrait(
        objective=objective,
        rewards=field.rewards,
        intervals=intervals,
        velocity=velocity,
        moves=speed > AT_REST * field.scale,
        paths=[flow.distributions[:, 0] for flow in flows],
        finished=[flow.finished for flow in flows],
        rest_points=rest_points(field),
    )


def spread_starts(count: int, seed: int) -> np.ndarray:
    """`[count, 3]`, policies spread evenly over the triangle, quasi-random."""
    square = Halton(2, seed=seed).random(count)
    others, share = np.sqrt(square[:, 0]), square[:, 1]
    return np.stack([1 - others, others * (1 - share), others * share], axis=1)
