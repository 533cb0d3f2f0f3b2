"""A table of logits for a search agent whose states share something with those of other questions."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.distributed.placement import REPLICATED, PlacementRules
from ipsrl.environments.search_agent import SearchAgent
from ipsrl.fields import Checked
from ipsrl.policies.policy import Actions, Cache, Parameters, score_logits
from ipsrl.policies.tabular import Tabular
from ipsrl.structures import PolicyScores, Prompts, Trajectories


@dataclasses.dataclass(frozen=True)
class SharedRelationTable(Checked):
    """The logits of an agent: a row for each state, and a row that it shares with the states of other questions.

        logits(s) = own[s] + shared[k(s)],   k = (the relation that the question asks for next, last result, just named)

    Where the chain of the question is over, "no relation" is next. Parameters: `{"own": [S, V], "shared": [K, V]}` with
    K = (R + 1) N (N + 1); both start at zero.

    Attributes:
      task: what it answers, with sees=state.

    Raises:
      ValueError: the task sees tokens.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset()
    placement_rules: ClassVar[PlacementRules] = REPLICATED

    task: SearchAgent

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task.sees != "state":
            raise ValueError(f"the task has sees={self.task.sees}, but a table needs sees=state")

    @property
    def vocabulary_size(self) -> int:
        return self.task.vocabulary_size

    @property
    def num_observations(self) -> int:
        return self.task.num_observations

    @functools.cached_property
    def shared_row(self) -> np.ndarray:
        """`[S]` int32, k of each state."""
        task = self.task
        following = np.full((task.problems, task.lookups + 1), task.relations)
        for row, (_, chain) in zip(following, task.questions, strict=True):
            row[: min(len(chain), len(row))] = chain[: len(row)]
        rows = np.arange(self.num_shared).reshape(
            task.relations + 1, task.entities, task.entities + 1
        )
        return rows[following].ravel().astype(np.int32)

    @property
    def num_shared(self) -> int:
        """K."""
        return (self.task.relations + 1) * self.task.entities * (self.task.entities + 1)

    def init(self, key: Array) -> Parameters:
        """Zeros; `key` is not used."""
        rows = {"own": self.num_observations, "shared": self.num_shared}
        return {
            name: Tabular(number, self.vocabulary_size).init(key)["logits"]
            for name, number in rows.items()
        }

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        """`[..., V]` of observations `[...]`."""
        return (
            parameters["own"][observations]
            + parameters["shared"][jnp.asarray(self.shared_row)[observations]]
        )

    def start(
        self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int
    ) -> Cache:
        """No state is carried: the observation holds everything."""
        return ()

    def step(
        self, parameters: Parameters, cache: Cache, observations: Array, position: Array
    ) -> tuple[Array, Cache]:
        return self.logits(parameters, observations), cache

    def score(
        self, parameters: Parameters, trajectories: Trajectories, temperature: float
    ) -> PolicyScores:
        return score_logits(
            self.logits(parameters, trajectories.observations),
            Actions.of(trajectories),
            temperature,
        )


def replayed(task: SearchAgent, answers: Trajectories) -> Trajectories:
    """Given answers with the observations and the legal actions of the environment."""
    index = answers.prompts.index

    def of_answer(prompt: Array, tokens: Array) -> tuple[Array, Array]:
        def turn(state, token):
            return task.step(state, token), (task.observe(state), task.legal(state))

        return jax.lax.scan(turn, task.reset(jax.random.key(0), prompt, jnp.int32(0)), tokens)[1]

    seen, legal = jax.vmap(jax.vmap(of_answer, (None, 0)))(index, answers.tokens)
    legal |= ~answers.token_mask[..., None]
    return dataclasses.replace(
        answers, observations=jnp.where(answers.written, seen, 0), legal_actions=legal
    )
