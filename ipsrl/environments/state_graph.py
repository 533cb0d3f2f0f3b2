"""Environments with enumerable states, so that every policy's distribution is known exactly.

A trajectory is a walk on a finite acyclic graph with numbered states: in the states 0 .. S - 1 an action follows, and
the walk ends in the states S .. S + K - 1, which are the K outcomes. So the whole state is one integer.
"""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.environment import BACKWARD_FIELDS, OutcomeSpace, check_number
from ipsrl.structures import Outcomes, Prompts, Sizes, Trajectories


@dataclasses.dataclass(frozen=True)
class StateGraph(abc.ABC):
    """Base class that turns a graph into an `Environment` with an exact distribution of outcomes for every policy.

    A subclass describes the graph by the abstract members below. `legal`, `step` and `num_parents` are jittable and
    take arrays of states of any shape. Every walk must end within `max_tokens` moves.
    """

    num_prompts: ClassVar[int] = 1
    prompt_length: ClassVar[int] = 0
    optional_fields: ClassVar[frozenset[str]] = BACKWARD_FIELDS | {"planning_mask"}
    verifies_on_host: ClassVar[bool] = False
    uses_tools: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def num_observations(self) -> int:
        """S, number of states in which an action follows."""

    @property
    @abc.abstractmethod
    def num_outcomes(self) -> int:
        """K, number of states in which a walk ends."""

    @property
    @abc.abstractmethod
    def vocabulary_size(self) -> int:
        """V, number of actions."""

    @property
    @abc.abstractmethod
    def max_tokens(self) -> int:
        """T, maximum number of moves in one walk."""

    def legal(self, state: Array) -> Array:
        """`[..., V]` bool, the legal actions in states `[...]`, by default all; arbitrary where a walk has ended."""
        return jnp.ones((*jnp.shape(state), self.vocabulary_size), bool)

    @abc.abstractmethod
    def step(self, state: Array, token: Array) -> Array:
        """The next states after legal actions; arbitrary after illegal ones, or where the walk has ended."""

    @abc.abstractmethod
    def num_parents(self, state: Array) -> Array:
        """Number of moves that lead into each state."""

    @abc.abstractmethod
    def outcome_names(self) -> tuple[str, ...]:
        """K readable names."""

    @abc.abstractmethod
    def reward_table(self) -> np.ndarray:
        """`[num_prompts, K]` float32 rewards."""

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            num_prompts=self.num_prompts,
            num_outcomes=self.num_outcomes,
            num_states=self.num_observations + self.num_outcomes,
            vocabulary_size=self.vocabulary_size,
        )

    def first_state(self, prompt_index: Array) -> Array:
        """The first state of a prompt's walks: 0, unless a subclass has several prompts."""
        return jnp.zeros_like(prompt_index)

    def prompts(self, index: Array) -> Prompts:
        """Without tokens: the observations show everything."""
        shape = (index.shape[0], 0)
        return Prompts(index, jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool))

    def reset(self, key: Array, prompt_index: Array, member: Array) -> Array:
        return self.first_state(jnp.asarray(prompt_index, jnp.int32))

    def observe(self, state: Array) -> Array:
        """The state itself; 0 when finished, so that observations stay in range."""
        return jnp.where(self.finished(state), 0, state)

    def dictated(self, state: Array) -> Array | None:
        return None

    def finished(self, state: Array) -> Array:
        return state >= self.num_observations

    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Rewards, outcomes and the uniform backward policy of walks of legal actions.

        log_backward = sum over the moves of -log(number of parents of the state reached) (arXiv 2106.04399): walk back
        from the outcome and choose each parent with equal probability. A truncated or empty walk has outcome -1 and
        reward 0, and its `log_backward` covers the moves that it made. Planning tokens are moves that had alternatives.
        """
        mask = trajectories.token_mask
        reached = self.step(trajectories.observations, trajectories.tokens)
        step_log_backward = jnp.where(mask, -jnp.log(self.num_parents(reached)), 0.0).astype(jnp.float32)
        last_action = jnp.maximum(trajectories.written.sum(-1, keepdims=True) - 1, 0)
        last_state = jnp.take_along_axis(reached, last_action, axis=-1)[..., 0]
        ended = self.finished(last_state) & trajectories.written.any(-1)
        outcome = jnp.where(ended, last_state - self.num_observations, -1)
        rewards = jnp.asarray(self.reward_table())[trajectories.prompts.index[:, None], outcome]
        return Outcomes(
            rewards=jnp.where(ended, rewards, 0.0),
            outcome_id=outcome.astype(jnp.int32),
            log_backward=step_log_backward.sum(axis=-1),
            step_log_backward=step_log_backward,
            next_states=jnp.where(mask, reached, 0).astype(jnp.int32),
            planning_mask=mask & (self.legal(trajectories.observations).sum(axis=-1) > 1),
        )

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        check_number("prompt", prompt, self.num_prompts)
        return OutcomeSpace(names=self.outcome_names(), rewards=self.reward_table()[prompt])

    def terminal_distribution(self, log_probs_table: Array, prompt: int | Array = 0) -> Array:
        """`[K]`, the exact probability of each outcome under a policy that sees only the state.

        All probability starts in the first state of the prompt and is moved `max_tokens` times along all edges at once.
        Differentiable, and mapped over policies by `jax.vmap`. Costs max_tokens * S * V additions.

        Args:
          log_probs_table: `[S, V]`, log-probability of each action in each state, -inf if illegal.
          prompt: prompt of the walks.

        Raises:
          ValueError: the table has another shape.
        """
        return self._flow(log_probs_table, prompt)[1]

    def visits(self, log_probs_table: Array, prompt: int | Array = 0) -> Array:
        """`[S]`, how often a walk is in each state on average; arguments as in `terminal_distribution`."""
        return self._flow(log_probs_table, prompt)[0]

    def _flow(self, log_probs_table: Array, prompt: int | Array) -> tuple[Array, Array]:
        """Mean number of visits `[S]`, and the distribution of outcomes `[K]`."""
        num_states, num_outcomes = self.num_observations, self.num_outcomes
        if log_probs_table.shape != (num_states, self.vocabulary_size):
            raise ValueError(
                f"log_probs_table must have shape [states, actions] = {(num_states, self.vocabulary_size)}, "
                f"not {log_probs_table.shape}."
            )
        probabilities = jnp.exp(log_probs_table)
        targets = self.step(jnp.arange(num_states)[:, None], jnp.arange(self.vocabulary_size)).ravel()

        def advance(masses, _):
            acting, visits, ended = masses
            flow = (acting[:, None] * probabilities).ravel()
            arrived = jax.ops.segment_sum(flow, targets, num_states + num_outcomes)
            return (arrived[:num_states], visits + acting, ended + arrived[num_states:]), None

        start = jax.nn.one_hot(self.first_state(jnp.asarray(prompt)), num_states, dtype=probabilities.dtype)
        nothing_ended = jnp.zeros(num_outcomes, probabilities.dtype)
        (_, visits, ended), _ = jax.lax.scan(
            advance, (start, jnp.zeros_like(start), nothing_ended), length=self.max_tokens
        )
        return visits, ended
