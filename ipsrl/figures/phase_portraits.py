"""Phase portraits as numbers: the triangle of policies over three outcomes, and the rows of a table."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from ipsrl.dynamics.portraits import Portrait
from ipsrl.figures import table

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])
"""Places of the policies with all probability on the first outcome, the second, the third."""


def rows(portrait: Portrait) -> Iterator[table.Row]:
    """The numbers of a portrait: policies p1, p2, p3 of four kinds.

    `field`: velocities dp/dt. `path`: policies along expected training, numbered by path and point. `rest`: rest points
    and their kind. `resting_edge`: the pair of outcomes between which every policy rests, as a policy of equal chances.
    """
    series = {"objective": portrait.objective} | _numbered("r", portrait.rewards)
    for policy, velocity in zip(portrait.policies, portrait.velocity, strict=True):
        yield series | {"measure": "field"} | _numbered("p", policy) | _numbered("dp_dt_", velocity)
    for number, path in enumerate(portrait.paths, 1):
        for place, policy in enumerate(path):
            yield series | {"measure": "path", "path": number, "point": place} | _numbered("p", policy)
    for point in portrait.rest_points:
        yield series | {"measure": "rest", "kind": point.kind} | _numbered("p", point.probs)
    for edge in portrait.resting_edges:
        yield series | {"measure": "resting_edge"} | _numbered("p", np.isin(range(3), edge) / 2)


def _numbered(name: str, values: Iterable[float]) -> table.Row:
    return {f"{name}{outcome}": value for outcome, value in enumerate(values, 1)}
