"""The one interface of all environments.

An action is a token. A bandit is a one-token environment, a hypergrid a sequence of moves, a language task is text.
An environment is a frozen dataclass: its fields are its configuration, and it is hashable, so that compiled functions
can take it as a static argument.
"""

import dataclasses
from typing import Any, Protocol

import jax
import numpy as np
from jax import Array

from ipsrl.structures import Outcomes, Prompts, Sizes, Trajectories

State = Any  # a pytree of arrays without batch axes; the sampler adds them by vmap


@dataclasses.dataclass(frozen=True)
class OutcomeSpace:
    """Every outcome of one prompt, for exact measures.

    Attributes:
      names: K readable names; the position of a name is its `outcome_id`.
      rewards: `[K]` float32 NumPy array, the reward of each outcome for this prompt.
    """

    names: tuple[str, ...]
    rewards: np.ndarray

    @property
    def target(self) -> np.ndarray:
        """`[K]` float64, the reward-proportional distribution r / sum(r) that inverse probability scaling aims at."""
        rewards = self.rewards.astype(np.float64)
        return rewards / rewards.sum()


class Environment(Protocol):
    """What the sampler, the training loop and the measures ask of an environment.

    `reset`, `observe`, `legal`, `step` and `finished` treat one trajectory, are pure and jittable, and are mapped over
    prompts and groups by the sampler. `prompts` and `verify` treat a whole batch.

    Attributes:
      num_prompts: number of different prompts, indexed 0 .. num_prompts - 1.
      prompt_length: L, columns of the token array of a prompt.
      vocabulary_size: V, number of actions, and of prompt tokens where prompts have any.
      num_observations: number of different observations (states, or V for text).
      max_tokens: T, the most actions in one trajectory.
      optional_fields: the optional fields of `Rollouts` that this environment can give (`log_backward`, ...).
      sizes: what the state of an objective may be indexed by.
      verifies_on_host: True where `verify` parses text in Python; False where it can be called inside jit.
    """

    @property
    def num_prompts(self) -> int: ...

    @property
    def prompt_length(self) -> int: ...

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def num_observations(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def optional_fields(self) -> frozenset[str]: ...

    @property
    def sizes(self) -> Sizes: ...

    @property
    def verifies_on_host(self) -> bool: ...

    def prompts(self, index: Array) -> Prompts:
        """The prompts with the indices `index` `[P]`."""
        ...

    def reset(self, prompt_index: Array) -> State:
        """The state before the first action."""
        ...

    def observe(self, state: State) -> Array:
        """`[]` int32, all that the policy sees of the state, in [0, num_observations)."""
        ...

    def legal(self, state: State) -> Array | None:
        """`[V]` bool, the actions that may be taken; None (for every state) where all may be taken always."""
        ...

    def step(self, state: State, token: Array) -> State:
        """The state after an action."""
        ...

    def finished(self, state: State) -> Array:
        """`[]` bool, True where no further action follows."""
        ...

    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Rewards and outcomes of a batch; on the host it takes and returns NumPy arrays."""
        ...

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        """Every outcome of a prompt with its reward.

        Raises:
          ValueError: the outcomes of this environment cannot be enumerated.
        """
        ...


def no_prompts(index: Array) -> Prompts:
    """Prompts without tokens, for environments that show everything in their observations."""
    shape = (index.shape[0], 0)
    return Prompts(index=index, tokens=jax.numpy.zeros(shape, "int32"), mask=jax.numpy.zeros(shape, bool))
