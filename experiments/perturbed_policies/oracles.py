"""Exact oracles: y*(s) = argmax over y in Y of <s, y>, for scores s of D components and a finite set Y of solutions.

Solutions are zeros and ones, of equally good ones the first. Costs to be minimised are negative scores.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@dataclasses.dataclass(frozen=True)
class GridPath:
    """The best path from the top left to the bottom right node of a grid, whose moves go right or down.

    Scores are of edges: first the rows * (columns - 1) edges that go right, by rows, then the (rows - 1) * columns that
    go down. In a tie the path arrives from the left.
    """

    rows: int
    columns: int

    @property
    def size(self) -> int:
        """D, number of scores."""
        right = self.rows * (self.columns - 1)
        down = (self.rows - 1) * self.columns
        return right + down

    def value(self, scores: Array) -> Array:
        """`[]`, max_y <s, y> for scores `[D]`, by dynamic programming over the nodes.

        It is written as choices between partial paths, so that its gradient is the best path (Danskin), also in ties.
        """
        right, down = jnp.split(scores, [self.rows * (self.columns - 1)])
        right = right.reshape(self.rows, -1)
        down = down.reshape(-1, self.columns)
        best = {(0, 0): jnp.zeros((), scores.dtype)}
        for j in range(1, self.columns):
            best[0, j] = best[0, j - 1] + right[0, j - 1]
        for i in range(1, self.rows):
            best[i, 0] = best[i - 1, 0] + down[i - 1, 0]
            for j in range(1, self.columns):
                from_left = best[i, j - 1] + right[i, j - 1]
                from_above = best[i - 1, j] + down[i - 1, j]
                # The derivative of `maximum` would halve a tie.
                best[i, j] = jnp.where(from_left >= from_above, from_left, from_above)
        return best[self.rows - 1, self.columns - 1]

    def solve(self, scores: Array) -> Array:
        """`[..., D]`, the best path for scores `[..., D]`."""
        path = jnp.vectorize(jax.grad(self.value), signature="(d)->(d)")
        return path(scores)

    def chosen(self, scores: Array, costs: Array) -> Array:
        """`[]`, <c, y*(s)> for scores and costs `[D]`: the derivative of the value along c, no path is stored."""
        _, along = jax.jvp(self.value, (scores,), (costs,))
        return along

    def descents(self) -> list[tuple[int, ...]]:
        """All K = (rows + columns - 2 over rows - 1) paths, each as the column in which it leaves each row but one."""
        columns = range(self.columns)
        found = itertools.combinations_with_replacement(columns, self.rows - 1)
        return list(found)[::-1]

    def paths(self) -> np.ndarray:
        """`[K, D]` zeros and ones, the paths of `descents`."""
        found = []
        for descents in self.descents():
            right = np.zeros((self.rows, self.columns - 1), np.int8)
            down = np.zeros((self.rows - 1, self.columns), np.int8)
            down[range(self.rows - 1), descents] = 1
            ends = itertools.pairwise((0, *descents, self.columns - 1))
            for row, (start, end) in zip(right, ends, strict=True):
                row[start:end] = 1
            edges = right.ravel(), down.ravel()
            found.append(np.concatenate(edges))
        return np.array(found)


@dataclasses.dataclass(frozen=True)
class Listed:
    """The best of K listed solutions of D numbers."""

    solutions: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """D, number of scores."""
        return len(self.solutions[0])

    def position(self, scores: Array) -> Array:
        """`[...]` int, the place of the best solution in the list, for costs that are not linear in the solution."""
        table = jnp.asarray(self.solutions, scores.dtype)
        return (scores @ table.T).argmax(axis=-1)

    def solve(self, scores: Array) -> Array:
        """`[..., D]`, the best solution for scores `[..., D]`."""
        table = jnp.asarray(self.solutions, scores.dtype)
        return table[self.position(scores)]


Oracle = GridPath | Listed
