"""Several paths to each outcome: an environment in which counting paths differs from counting outcomes."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, at_least, between
from ipsrl.environments.state_graph import StateGraph
from ipsrl.rewards import ALLOWED, LARGEST, SMALLEST


@dataclasses.dataclass(frozen=True)
class Tree(Checked, StateGraph):
    """Walks from (0, 0) that go right or up by 1 .. `longest_step` until x + y = `depth`; the outcome is x.

    The defaults are the example of 10 states and 18 trajectories, of which 4, 5, 5 and 4 lead to the outcomes. With
    `longest_step=1` the walks are lattice paths, and binomial(depth, x) of them lead to outcome x: at depth 7, 35 paths
    lead to (3, 4) and 7 to (1, 6), the multiplicities of arXiv 2601.21669, section 6.

    Actions 0 .. longest_step - 1 go right by 1 .. longest_step; the next longest_step actions go up.

    Attributes:
      depth: x + y of the outcomes, at least 1.
      longest_step: the largest step, in 1 .. depth.
      rewards: reward of each outcome (x, depth - x), x = 0 .. depth; each in `ipsrl.rewards.ALLOWED`.

    Raises:
      ValueError: a field is out of its range.
    """

    depth: int = at_least(1, 3)
    longest_step: int = between(1, lambda tree: tree.depth, 3)
    rewards: tuple[float, ...] = (1.0, 0.8, 0.2, 0.05)

    def __post_init__(self):
        super().__post_init__()
        right_length = isinstance(self.rewards, tuple) and len(self.rewards) == self.depth + 1
        if not right_length or not np.all(ALLOWED.holds(np.array(self.rewards))):
            raise ValueError(
                f"rewards must be a tuple of depth + 1 = {self.depth + 1} finite numbers, one for each outcome, "
                f"each 0 or of a size from {SMALLEST:g} to {LARGEST:g}, not {self.rewards!r}."
            )

    @property
    def num_observations(self) -> int:
        return self.depth * (self.depth + 1) // 2

    @property
    def num_outcomes(self) -> int:
        return self.depth + 1

    @property
    def vocabulary_size(self) -> int:
        return 2 * self.longest_step

    @property
    def max_tokens(self) -> int:
        return self.depth

    def positions(self) -> np.ndarray:
        """`[S + K, 2]` int32, (x, y) of every state: by x + y, then by x."""
        return np.array([(x, total - x) for total in range(self.depth + 1) for x in range(total + 1)], np.int32)

    def legal(self, state: Array) -> Array:
        steps = jnp.asarray(np.tile(np.arange(1, self.longest_step + 1), 2))
        left = self.depth - jnp.asarray(self.positions().sum(-1))[state]
        return steps <= left[..., None]

    def step(self, state: Array, token: Array) -> Array:
        x, y = jnp.moveaxis(jnp.asarray(self.positions())[state], -1, 0)
        step = token % self.longest_step + 1
        goes_right = token < self.longest_step
        total = x + y + step
        return total * (total + 1) // 2 + jnp.where(goes_right, x + step, x)

    def num_parents(self, state: Array) -> Array:
        return jnp.minimum(jnp.asarray(self.positions())[state], self.longest_step).sum(-1)

    def path_counts(self) -> np.ndarray:
        """`[K]` int64, number of trajectories that end in each outcome."""
        counts = {(0, 0): 1}
        for x, y in self.positions()[1:].tolist():
            steps = range(1, self.longest_step + 1)
            counts[x, y] = sum(counts.get((x - step, y), 0) + counts.get((x, y - step), 0) for step in steps)
        return np.array([counts[x, self.depth - x] for x in range(self.num_outcomes)], np.int64)

    def outcome_names(self) -> tuple[str, ...]:
        return tuple(f"({x}, {self.depth - x})" for x in range(self.num_outcomes))

    def reward_table(self) -> np.ndarray:
        return np.array([self.rewards], np.float32)
