"""Exact oracles: y*(s) = argmax over y in Y of <s, y>, for scores s of D components and a finite set Y of solutions.

An oracle is its value max_y <s, y>, written as choices between partial solutions: its gradient in the scores is the
solution (Danskin), and its derivative in the direction of costs c is <c, y*(s)>, without a solution being stored. All
of it is vmapped and compiled as one program. Costs to be minimised are negative scores.
"""

import abc
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.arguments import shown
from ipsrl.fields import Checked, positive


class Oracle(Checked, abc.ABC):
    """Base of oracles. Of equally good solutions the first one is returned, in an order of each oracle's own."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """D, number of scores."""

    @abc.abstractmethod
    def value(self, scores: Array) -> Array:
        """`[]`, max_y <s, y> for scores `[D]`; piecewise linear, with the solution as its gradient also in ties."""

    def solve(self, scores: Array) -> Array:
        """`[..., D]`, the solution y*(s) as zeros and ones, for scores `[..., D]`.

        Raises:
          ValueError: the last axis of the scores is not D.
        """
        self._check(scores)
        return jnp.vectorize(jax.grad(self.value), signature="(d)->(d)")(scores)

    def chosen(self, scores: Array, costs: Array) -> Array:
        """`[...]`, <c, y*(s)> for scores and costs `[..., D]`, which are broadcast against each other.

        Raises:
          ValueError: the last axis of scores or costs is not D.
        """
        self._check(scores)
        self._check(costs)

        def along(scores: Array, costs: Array) -> Array:
            return jax.jvp(self.value, (scores,), (costs,))[1]

        return jnp.vectorize(along, signature="(d),(d)->()")(scores, costs)

    def _check(self, scores: Array) -> None:
        if jnp.shape(scores)[-1:] != (self.size,):
            raise ValueError(
                f"scores and costs of {self} must be [..., {self.size}], not {jnp.shape(scores)}"
            )


@dataclasses.dataclass(frozen=True)
class GridPath(Oracle):
    """The best path from the top left to the bottom right node of a grid, whose moves go right or down.

    Scores are of edges: first the rows * (columns - 1) edges that go right, by rows, then the (rows - 1) * columns that
    go down. By dynamic programming over the nodes; in a tie the path arrives from the left.

    Raises:
      ValueError: rows or columns are not positive, or the grid is a single node.
    """

    rows: int = positive()
    columns: int = positive()

    def __post_init__(self):
        super().__post_init__()
        if self.rows == self.columns == 1:
            raise ValueError("a grid of 1 row and 1 column has no edge: give it two or more nodes")

    @property
    def size(self) -> int:
        return self.rows * (self.columns - 1) + (self.rows - 1) * self.columns

    def edges(self) -> np.ndarray:
        """`[D, 2]`, the nodes of each edge in the direction of the move; node (i, j) has the number i columns + j."""
        node = np.arange(self.rows * self.columns).reshape(self.rows, self.columns)
        right, down = (node[:, :-1], node[:, 1:]), (node[:-1], node[1:])
        return np.concatenate(
            [np.stack([start.ravel(), end.ravel()], axis=1) for start, end in (right, down)]
        )

    def value(self, scores: Array) -> Array:
        split = self.rows * (self.columns - 1)
        right, down = (
            scores[:split].reshape(self.rows, -1),
            scores[split:].reshape(-1, self.columns),
        )
        best = {(0, 0): jnp.zeros((), scores.dtype)}
        for i in range(self.rows):
            for j in range(self.columns):
                from_left = best[i, j - 1] + right[i, j - 1] if j else None
                from_above = best[i - 1, j] + down[i - 1, j] if i else None
                if from_left is not None and from_above is not None:
                    # The derivative of `maximum` would halve a tie.
                    best[i, j] = jnp.where(from_left >= from_above, from_left, from_above)
                elif i or j:
                    best[i, j] = from_above if from_left is None else from_left
        return best[self.rows - 1, self.columns - 1]

    def paths(self) -> np.ndarray:
        """`[K, D]` zeros and ones, all K = (rows + columns - 2 over rows - 1) paths."""
        leaving: dict[int, list[tuple[int, int]]] = {}
        for number, (start, end) in enumerate(self.edges().tolist()):
            leaving.setdefault(start, []).append((number, end))
        found: list[tuple[int, ...]] = []
        open_paths: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        while open_paths:
            node, path = open_paths.pop()
            if node not in leaving:
                found.append(path)
            open_paths += [(end, (*path, number)) for number, end in leaving.get(node, ())]
        solutions = np.zeros((len(found), self.size), np.int8)
        np.put_along_axis(solutions, np.array(sorted(found)), 1, axis=1)
        return solutions


@dataclasses.dataclass(frozen=True)
class Listed(Oracle):
    """The best of a list of solutions; of equal ones the first. Exact for any set that can be listed.

    Attributes:
      solutions: K tuples of D numbers, 0 or 1.

    Raises:
      ValueError: there is no solution, or they are not tuples of zeros and ones of one length.
    """

    solutions: tuple[tuple[int, ...], ...]

    def __post_init__(self):
        try:
            table = np.asarray(self.solutions, np.float64)
        except (TypeError, ValueError):
            table = np.zeros(())
        if table.ndim != 2 or table.size == 0 or not np.isin(table, (0, 1)).all():
            raise ValueError(
                f"solutions is {shown(self.solutions)}, it must be one or more tuples of zeros and ones of one length"
            )
        super().__post_init__()

    @property
    def size(self) -> int:
        return len(self.solutions[0])

    def position(self, scores: Array) -> Array:
        """`[...]` int, the place of the best solution in the list, for costs that are not linear in the solution."""
        self._check(scores)
        return (scores @ jnp.asarray(self.solutions, scores.dtype).T).argmax(axis=-1)

    def value(self, scores: Array) -> Array:
        return (
            jnp.asarray(self.solutions, scores.dtype)[self.position(jax.lax.stop_gradient(scores))]
            @ scores
        )
