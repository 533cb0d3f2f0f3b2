"""Answers with two kinds of tokens: forks, which choose a plan, and steps, which carry it out or slip."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, at_least
from ipsrl.environments.state_graph import StateGraph
from ipsrl.rewards import ALLOWED
from ipsrl.structures import Outcomes, Trajectories

MOST_STATES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Forks(Checked, StateGraph):
    """`forks` times a fork and `steps` tokens that carry it out; all answers have forks * (1 + steps) tokens.

    At a fork the action is the branch. At a step the action 0 is right, and every other one is a slip, after which the
    answer goes on, but is worth nothing. The outcomes are the branches^forks plans, in the order of
    `itertools.product`, and last "slipped". The planning tokens are the forks: with four steps each, a fifth.

    A state knows its position, the branches taken and whether there was a slip.

    Attributes:
      forks, branches, steps: at least 1, 2 and 1.
      rewards: of each plan, if it is carried out without a slip; each in `ipsrl.rewards.ALLOWED`.

    Raises:
      ValueError: a field is out of its range, or there are too many states.
    """

    forks: int = at_least(1, 2)
    branches: int = at_least(2, 3)
    steps: int = at_least(1, 4)
    rewards: tuple[float, ...] = (1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0)

    def __post_init__(self):
        super().__post_init__()
        if self.forks > 20 or (plans := self.branches**self.forks) * 2 * self.max_tokens > MOST_STATES:
            raise ValueError(f"branches**forks is {self.branches}**{self.forks}, which gives too many states")
        if len(self.rewards) != plans or not np.all(ALLOWED.holds(np.array(self.rewards))):
            raise ValueError(f"rewards must be {plans} finite numbers, one for each plan, not {self.rewards!r}")

    @property
    def max_tokens(self) -> int:
        return self.forks * (1 + self.steps)

    @property
    def num_outcomes(self) -> int:
        return self.branches**self.forks + 1

    @property
    def vocabulary_size(self) -> int:
        return self.branches

    @property
    def num_observations(self) -> int:
        return int(self._first_states[-1])

    @functools.cached_property
    def _first_states(self) -> np.ndarray:
        """`[T + 1]`, the first state of each position, and their number."""
        sizes = [self.branches ** -(-t // (1 + self.steps)) * (1 + (t > 1)) for t in range(self.max_tokens)]
        return np.cumsum([0, *sizes])

    @functools.cached_property
    def _tables(self) -> np.ndarray:
        """`[3, S]`: position, number of the branches taken, and whether there was a slip."""
        rows = [
            (position, branches, slipped)
            for position, (first, end) in enumerate(itertools.pairwise(self._first_states.tolist()))
            for branches, slipped in itertools.product(range((end - first) // (1 + (position > 1))), (0, 1))
            if position > 1 or not slipped
        ]
        return np.array(rows, np.int32).T

    def is_fork(self, state: Array) -> Array:
        """Whether a fork follows; arbitrary where the walk has ended."""
        return jnp.asarray(self._tables[0] % (1 + self.steps) == 0)[state]

    def step(self, state: Array, token: Array) -> Array:
        position, branches, slipped = jnp.asarray(self._tables)[:, state]
        fork = self.is_fork(state)
        branches = jnp.where(fork, self.branches * branches + token, branches)
        slipped = jnp.where(fork, slipped, slipped | (token != 0))
        later = jnp.asarray(self._first_states)[position + 1]
        going_on = later + jnp.where(position > 0, 2 * branches + slipped, branches)
        ended = later + jnp.where(slipped == 1, self.num_outcomes - 1, branches)
        return jnp.where(position + 1 < self.max_tokens, going_on, ended).astype(jnp.int32)

    def num_parents(self, state: Array) -> Array:
        return jnp.asarray(self._parents)[state]

    @functools.cached_property
    def _parents(self) -> np.ndarray:
        with jax.ensure_compile_time_eval():
            states = jnp.arange(self.num_observations)[:, None]
            reached = np.asarray(self.step(states, jnp.arange(self.branches)))
        return np.bincount(reached.ravel(), minlength=self.num_observations + self.num_outcomes)

    def verify(self, trajectories: Trajectories) -> Outcomes:
        planning = trajectories.token_mask & self.is_fork(trajectories.observations)
        return dataclasses.replace(super().verify(trajectories), planning_mask=planning)

    def outcome_names(self) -> tuple[str, ...]:
        plans = itertools.product(range(self.branches), repeat=self.forks)
        return (*("plan " + " ".join(map(str, plan)) for plan in plans), "slipped")

    def reward_table(self) -> np.ndarray:
        return np.array([[*self.rewards, 0.0]], np.float32)

    def logits(self, slip: float) -> tuple[tuple[float, ...], ...]:
        """`[S, V]`, of a policy that picks branches at random and slips at each step with a probability above 0."""
        right = np.log([1 - slip, *[slip / (self.branches - 1)] * (self.branches - 1)])
        fork = np.asarray(self._tables[0] % (1 + self.steps) == 0)[:, None]
        return tuple(map(tuple, np.where(fork, 0.0, right).tolist()))
