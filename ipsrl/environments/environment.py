"""The one interface of all environments.

An action is a token. A bandit is a one-token environment, a hypergrid a sequence of moves, a language task is text. An
environment is a frozen dataclass of its configuration: hashable, so a static argument of compiled functions.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeGuard

import jax
import numpy as np
from jax import Array

from ipsrl.checking.arguments import MADE_BY, NOT_REQUIRED, accepted
from ipsrl.structures import Outcomes, Prompts, Sizes, Trajectories

BACKWARD_FIELDS = frozenset({"log_backward", "step_log_backward", "next_states"})
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
        """`[K]` float64, the reward-proportional distribution r / sum(r), the target of inverse probability scaling."""
        rewards = self.rewards.astype(np.float64)
        return rewards / rewards.sum()


class Environment(Hashable, Protocol):
    """Interface that the sampler, the training loop and the measures require.

    `reset`, `observe`, `legal`, `dictated`, `step` and `finished` handle one trajectory, are pure and jittable, and are
    mapped over prompts and groups by the sampler. `prompts` and `verify` handle a whole batch.

    Attributes:
      num_prompts: number of different prompts, indexed 0 .. num_prompts - 1.
      prompt_length: L, columns of the token array of a prompt.
      vocabulary_size: V, number of actions, and of prompt tokens if prompts have any.
      num_observations: number of different observations (states, or V for text).
      max_tokens: T, maximum number of actions in one trajectory.
      optional_fields: the optional fields of `Rollouts` that this environment provides (`log_backward`, ...).
      sizes: sizes of the tables in an objective's state.
      verifies_on_host: True if `verify` parses text in Python; False if it can be called inside jit.
      uses_tools: True for a `ToolEnvironment`.

    An environment that treats the members of a group in turn has a `group_multiple` besides: the size of the groups in
    training must be a multiple of it, see `check_group_size`.
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

    @property
    def uses_tools(self) -> bool: ...

    def prompts(self, index: Array) -> Prompts:
        """The prompts with the indices `index` `[P]`."""

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        """The state before the first action.

        Args:
          key: for whatever the environment samples, one for each trajectory: a function of seed, step, prompt and
            member, the same on every mesh. The state may hold it.
          prompt_index: `[]` int32, the prompt.
          member: `[]` int32, the place of the trajectory in its group; in the second group of the same prompt in a
            batch the numbers go on, so that the second attempt of a member is the same member.
        """

    def observe(self, state: State) -> Array:
        """`[]` int32, the part of the state that the policy sees, in [0, num_observations)."""

    def legal(self, state: State) -> Array | None:
        """`[V]` bool, the legal actions; None (for every state) if all actions are always legal."""

    def dictated(self, state: State) -> Array | None:
        """`[]` int32, the token that comes next whatever the policy prefers: the words of a tool or of another speaker,
        or a forced mode; negative where the policy acts. None (for every state) if it always does.
        """

    def step(self, state: State, token: Array) -> State:
        """The state after an action."""

    def finished(self, state: State) -> Array:
        """`[]` bool, True if no further action follows."""

    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Rewards and outcomes of a batch; on the host it takes and returns NumPy arrays.

        `trajectories.final_state` holds what the environment remembers of each trajectory.
        """

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        """Every outcome of a prompt with its reward.

        Raises:
          ValueError: the prompt does not exist, or the outcomes of this environment cannot be enumerated.
        """


# Only measures over all outcomes ask for it.
NOT_REQUIRED[Environment] = ("outcome_space",)
MADE_BY[Environment] = 'environments.catalog.make("bandit(rewards=(1.0, 0.5))")'


class ToolEnvironment(Environment, Protocol):
    """An environment in which a trajectory may wait for words that the host computes, such as the result of a tool.

    `waiting` and `hear` handle one trajectory, like `step`; `call` handles all that wait, on the host.

    Attributes:
      longest_reply: W, maximum number of tokens of a reply.
    """

    @property
    def longest_reply(self) -> int: ...

    def waiting(self, state: State) -> Array:
        """`[]` bool, True if the trajectory goes on only after `hear`."""

    def hear(self, state: State, reply: Array, length: Array) -> State:
        """The state after a reply `[W]` int32 of `length` tokens, which it dictates next and which may be empty."""

    def call(
        self, prompt_index: Sequence[int], answers: Sequence[np.ndarray], own: Sequence[np.ndarray]
    ) -> list[list[int]]:
        """The reply to each answer so far, as tokens; computed on the host, within bounded time.

        Args:
          prompt_index: the prompt of each answer.
          answers: `[n]` int32 each, the tokens so far.
          own: `[n]` bool each, True for tokens that the policy chose, False for those of the environment.
        """


def require_tokens(what: str, tokens: Any, vocabulary_size: int) -> list[int]:
    """A list of tokens from the host; `what` begins the message.

    Raises:
      ValueError: they are something else than a sequence of integers, or one is outside the vocabulary.
    """
    is_list = isinstance(tokens, Sequence | np.ndarray) and not isinstance(tokens, str | bytes)
    if not is_list or any(type(token) is bool or not isinstance(token, int | np.integer) for token in tokens):
        raise ValueError(f"{what} must be a list of tokens, not {tokens!r:.60}")
    if outside := [token for token in tokens if not 0 <= token < vocabulary_size]:
        raise ValueError(f"{what} has the token {outside[0]}, but the vocabulary is 0 to {vocabulary_size - 1}")
    return [int(token) for token in tokens]


def check_number(what: str, number: Any, count: int) -> None:
    """Raises ValueError unless a prompt, or a hypothesis, with that number exists."""
    if not 0 <= accepted(what, number, int) < count:
        raise ValueError(f"{what} {number} does not exist: this task has {count}, numbered from 0")


def waits_for_tools(environment: Environment) -> TypeGuard[ToolEnvironment]:
    """Whether trajectories may wait for the words of a tool."""
    return environment.uses_tools


def dictates(environment: Environment) -> bool:
    """Whether the environment dictates tokens in any state."""

    def first(key: Array) -> Array | None:
        return environment.dictated(environment.reset(key, jax.numpy.int32(0), jax.numpy.int32(0)))

    return jax.eval_shape(first, jax.random.key(0)) is not None


def fields_of(environment: Environment) -> frozenset[str]:
    """The optional fields that an environment provides: no backward policy has a probability for dictated tokens."""
    return environment.optional_fields - (BACKWARD_FIELDS if dictates(environment) else frozenset())


def check_group_size(environment: Environment, group_size: int) -> None:
    """Raises ValueError unless groups of this size have all that the environment does to their members in turn."""
    multiple = getattr(environment, "group_multiple", 1)
    if group_size % multiple:
        raise ValueError(
            f"group_size is {group_size}, it must be a multiple of {multiple}, because {environment} treats that many "
            "members of a group in turn"
        )
