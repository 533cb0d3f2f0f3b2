"""Data of a phase portrait: the flow of an expected update on the triangle of policies over three outcomes."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ipsrl.dynamics.rest_points import RestPoint


@dataclasses.dataclass(frozen=True)
class Portrait:
    """Expected training by one objective.

    Attributes:
      objective: its name.
      rewards: of the three outcomes, none negative, not all zero.
      intervals: number of intervals on each side of the lattice of policies.
      velocity: `[N, 3]`, dp/dt at the policies of the lattice.
      moves: `[N]` bool, whether training moves them.
      paths: `[T, 3]` each, the policies along expected training from some starts.
      finished: for each path, False if it stopped where the field is discontinuous.
      rest_points: policies at which training rests.
    """

    objective: str
    rewards: tuple[float, ...]
    intervals: int
    velocity: np.ndarray
    moves: np.ndarray
    paths: Sequence[np.ndarray]
    finished: Sequence[bool]
    rest_points: Sequence[RestPoint]

    @property
    def policies(self) -> np.ndarray:
        """`[N, 3]`, policies of the lattice."""
        return lattice(self.intervals)

    @property
    def speed(self) -> np.ndarray:
        """`[N]`, |dp/dt|."""
        return np.linalg.norm(self.velocity, axis=1)

    @property
    def rests_everywhere(self) -> bool:
        return not self.moves.any()

    @property
    def resting_edges(self) -> list[tuple[int, int]]:
        """Pairs of outcomes between which no policy moves."""
        edges = ((0, 1), (0, 2), (1, 2))
        return [edge for edge in edges if not self.moves[self.policies[:, 3 - sum(edge)] == 0].any()]

    @property
    def isolated(self) -> list[RestPoint]:
        """The rest points but for those on an edge, or in a triangle, of which every policy rests."""
        resting = [set(edge) for edge in self.resting_edges]
        present = [(point, set(np.flatnonzero(point.probs).tolist())) for point in self.rest_points]
        return [] if self.rests_everywhere else [p for p, face in present if not any(face <= edge for edge in resting)]

    @property
    def attracting(self) -> list[RestPoint]:
        """The rest points at which expected training ends."""
        return [point for point in self.rest_points if point.kind == "attracts"]


def lattice(intervals: int) -> np.ndarray:
    """`[N, 3]`, the policies whose probabilities are multiples of 1 / intervals, those on the edges included."""
    counts = [(i, j, intervals - i - j) for i in range(intervals + 1) for j in range(intervals + 1 - i)]
    return np.array(counts) / intervals
