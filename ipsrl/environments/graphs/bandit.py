"""One action, one outcome: the smallest environment in which an objective can lose an outcome."""

import dataclasses
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ipsrl.checking.arguments import shown
from ipsrl.environments.state_graph import StateGraph
from ipsrl.rewards import ALLOWED
from ipsrl.structures import Outcomes, Trajectories, as_tuples


@dataclasses.dataclass(frozen=True)
class Bandit(StateGraph):
    """K arms; a trajectory is the pull of one arm. Every prompt is one state, and its arms are the outcomes.

    Attributes:
      rewards: the K rewards of the arms, or one such tuple for each prompt.

    Raises:
      ValueError: `rewards` is empty, ragged, or outside of `ipsrl.rewards.ALLOWED`.
    """

    rewards: tuple[float, ...] | tuple[tuple[float, ...], ...] = (1.0, 1.0)

    max_tokens: ClassVar[int] = 1
    axes_of_rewards: ClassVar[tuple[int, ...]] = (1, 2)
    described_rewards: ClassVar[str] = (
        "a tuple of numbers, one for each arm, or a tuple of such tuples of one length, one for each prompt"
    )

    def __post_init__(self):
        try:
            hash(self.rewards)
            table = np.asarray(self.rewards, np.float64)
        except (TypeError, ValueError, OverflowError):
            table = np.zeros(())
        right = isinstance(self.rewards, tuple) and table.ndim in self.axes_of_rewards and table.size > 0
        if not right or not np.all(ALLOWED.holds(table)):
            raise ValueError(
                f"rewards must be {self.described_rewards}, and each number must {ALLOWED.phrase}; not "
                f"{shown(self.rewards)}"
            )

    @classmethod
    def of_table(cls, rewards: ArrayLike, **others: Any) -> Self:
        """The bandit of an array of rewards, `[K]` or `[num_prompts, K]`; `others` are further fields."""
        return cls(as_tuples(rewards), **others)

    @property
    def num_prompts(self) -> int:
        return len(self.reward_table())

    @property
    def num_observations(self) -> int:
        return self.num_prompts

    @property
    def num_outcomes(self) -> int:
        return self.reward_table().shape[1]

    @property
    def vocabulary_size(self) -> int:
        return self.num_outcomes

    def first_state(self, prompt_index: Array) -> Array:
        return prompt_index

    def step(self, state: Array, token: Array) -> Array:
        return jnp.zeros_like(state) + self.num_observations + token

    def num_parents(self, state: Array) -> Array:
        """1 for every arm: trajectories of a prompt reach it in one way."""
        return jnp.where(state < self.num_observations, 0, 1)

    def outcome_names(self) -> tuple[str, ...]:
        return tuple(f"arm {arm}" for arm in range(self.num_outcomes))

    def reward_table(self) -> np.ndarray:
        return np.atleast_2d(np.asarray(self.rewards, np.float32))


@dataclasses.dataclass(frozen=True)
class VectorBandit(Bandit):
    """A bandit of one prompt whose arms have several rewards each; `Outcomes.rewards` are their means.

    Attributes:
      rewards: for each of the K arms its M rewards.

    Raises:
      ValueError: `rewards` is empty, ragged, not a tuple of tuples, or outside of `ipsrl.rewards.ALLOWED`.
    """

    rewards: tuple[tuple[float, ...], ...] = ((1.0, 0.0), (0.0, 1.0))

    axes_of_rewards = (2,)
    described_rewards = "a tuple of tuples of one length, the rewards of each arm"
    optional_fields = StateGraph.optional_fields | {"reward_parts"}

    def reward_table(self) -> np.ndarray:
        return np.asarray(self.rewards, np.float32).mean(axis=1)[None]

    def verify(self, trajectories: Trajectories) -> Outcomes:
        outcomes = super().verify(trajectories)
        return dataclasses.replace(outcomes, reward_parts=jnp.asarray(self.rewards, jnp.float32)[outcomes.outcome_id])
