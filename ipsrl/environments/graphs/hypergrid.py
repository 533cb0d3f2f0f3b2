"""The hypergrid of arXiv 2106.04399, as used in arXiv 2601.21669, section 5.1."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, Range, at_least, in_range
from ipsrl.environments.state_graph import StateGraph
from ipsrl.rewards import LARGEST, SMALLEST

REWARD = Range(
    f"be finite and not negative: 0, or from {SMALLEST:g} to {LARGEST:g}",
    lambda reward: reward == 0 or SMALLEST <= reward <= LARGEST,
)
SIDES_WITHOUT_PEAK = (2, 3, 4, 5, 6, 11)
"""The sides at which no coordinate x has 3/10 < |x / (side - 1) - 1/2| < 4/10."""


@dataclasses.dataclass(frozen=True)
class Hypergrid(Checked, StateGraph):
    """Walks from the origin of {0 .. side - 1}^dimensions: raise one coordinate by 1, or stop: the cell is the outcome.

    R(x) = R0 + R1 * prod_d 1[1/4 < |x_d / (side - 1) - 1/2| <= 1/2] + R2 * prod_d 1[3/10 < |same| < 4/10]

    At side 8 the cells of the highest reward are {1, 6}^dimensions; at the sides 2 to 6 and 11 no cell earns R2. The
    first coordinate is the most significant digit of a cell's number, so an array over cells reshapes to
    `(side,) * dimensions`. State c < side^dimensions is the cell c, and state side^dimensions + c is "stopped at c".
    Actions 0 .. dimensions - 1 raise that coordinate, the last action stops.

    Attributes:
      dimensions: number of coordinates, at least 1.
      side: number of values of a coordinate, at least 2.
      base_reward: R0, 0 or from 1e-15 to 1e15.
      edge_reward: R1, likewise.
      peak_reward: R2, likewise; without effect at the sides 2 to 6 and 11.

    Raises:
      ValueError: a field is out of its range, no cell has a reward, or there are more states than int32 can number.
    """

    dimensions: int = at_least(1, 2)
    side: int = at_least(2, 8)
    base_reward: float = in_range(REWARD, 0.1)
    edge_reward: float = in_range(REWARD, 0.5)
    peak_reward: float = in_range(REWARD, 2.0)

    def __post_init__(self):
        super().__post_init__()
        # The power itself may have a billion digits.
        if self.dimensions > 30 or 2 * self.side**self.dimensions > np.iinfo(np.int32).max:
            raise ValueError(
                f"side**dimensions must be below 2**30, so that states fit into int32; {self.side}**{self.dimensions} "
                "does not."
            )
        if self.base_reward + self.edge_reward + self.peak_reward * (self.side not in SIDES_WITHOUT_PEAK) == 0:
            raise ValueError(
                "no cell has a reward: base_reward or edge_reward must be above 0, or peak_reward at a side other than "
                f"{', '.join(map(str, SIDES_WITHOUT_PEAK))}."
            )

    @property
    def num_observations(self) -> int:
        return self.side**self.dimensions

    @property
    def num_outcomes(self) -> int:
        return self.side**self.dimensions

    @property
    def vocabulary_size(self) -> int:
        return self.dimensions + 1

    @property
    def max_tokens(self) -> int:
        return self.dimensions * (self.side - 1) + 1

    @property
    def num_features(self) -> int:
        """F, length of `features`."""
        return self.dimensions * self.side

    @property
    def _place_values(self) -> np.ndarray:
        return self.side ** np.arange(self.dimensions - 1, -1, -1, dtype=np.int32)

    def coordinates(self, cell: Array | np.ndarray) -> Array | np.ndarray:
        """`[..., dimensions]`, the coordinates of cells `[...]`."""
        return cell[..., None] // self._place_values % self.side

    def features(self, cell: Array) -> Array:
        """`[..., dimensions * side]` float32, the coordinates of cells `[...]`, each one-hot."""
        one_hot = jax.nn.one_hot(self.coordinates(cell), self.side, dtype=jnp.float32)
        return one_hot.reshape(*jnp.shape(cell), self.num_features)

    def legal(self, state: Array) -> Array:
        can_raise = self.coordinates(state) < self.side - 1
        return jnp.concatenate([can_raise, jnp.ones_like(can_raise[..., :1])], axis=-1)

    def step(self, state: Array, token: Array) -> Array:
        # Stopping adds side^dimensions, the place value of "stopped".
        return state + jnp.asarray([*self._place_values, self.num_observations], jnp.int32)[token]

    def num_parents(self, state: Array) -> Array:
        return jnp.where(self.finished(state), 1, (self.coordinates(state) > 0).sum(-1))

    def modes(self) -> np.ndarray:
        """`[K]` bool, True at the cells of the highest reward."""
        rewards = self.reward_table()[0]
        return rewards == rewards.max()

    def outcome_names(self) -> tuple[str, ...]:
        cells = self.coordinates(np.arange(self.num_outcomes)).tolist()
        return tuple(f"({', '.join(map(str, cell))})" for cell in cells)

    def reward_table(self) -> np.ndarray:
        # |x / (side - 1) - 1/2| = distance / (2 * (side - 1)). Bounds are compared in integers, because a cell may lie
        # exactly on one: in floats |0.8 - 0.5| > 0.3.
        longest = self.side - 1
        distance = np.abs(2 * self.coordinates(np.arange(self.num_outcomes)) - longest)
        edge = np.all(2 * distance > longest, axis=-1)
        peak = np.all((5 * distance > 3 * longest) & (5 * distance < 4 * longest), axis=-1)
        rewards = self.base_reward + self.edge_reward * edge + self.peak_reward * peak
        return rewards.astype(np.float32)[None]
