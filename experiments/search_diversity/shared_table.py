"""A table of logits for a search agent whose states share something with those of other questions."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.structures import Trajectories


@dataclasses.dataclass(frozen=True)
class SharedRelationTable(Tabular):
    """The logits of an agent: a row for each state, and a row that it shares with the states of other questions.

        logits(s) = own[s] + shared[k(s)],   k = (the relation that the question asks for next, last result, just named)

    Where the chain of the question is over, "no relation" is next. Parameters: `{"own": [S, V], "shared": [K, V]}` with
    K = (R + 1) N (N + 1); both start at zero.

    Attributes:
      task: what it answers, with sees=state.
    """

    task: SearchAgent = dataclasses.field(kw_only=True)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the shared rows: relations or none, last results, and entities just named or none."""
        return self.task.relations + 1, self.task.entities, self.task.entities + 1

    @functools.cached_property
    def shared_row(self) -> np.ndarray:
        """`[S]` int32, k of each state."""
        task = self.task
        following = np.full((task.problems, task.lookups + 1), task.relations)
        for row, (_, chain) in zip(following, task.questions, strict=True):
            row[: len(chain)] = chain
        rows = np.arange(math.prod(self.shape), dtype=np.int32).reshape(self.shape)
        return rows[following].ravel()

    def init(self, key: Array) -> Parameters:
        """Zeros; `key` is not used."""
        own = super().init(key)["logits"]
        return {"own": own, "shared": jnp.zeros((math.prod(self.shape), self.vocabulary_size))}

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        shared = jnp.asarray(self.shared_row)[observations]
        return parameters["own"][observations] + parameters["shared"][shared]


def replayed(task: SearchAgent, answers: Trajectories) -> Trajectories:
    """Given answers with the observations and the legal actions of the environment."""
    index = answers.prompts.index

    def of_answer(prompt, tokens):
        def turn(state, token):
            return task.step(state, token), (task.observe(state), task.legal(state))

        return jax.lax.scan(turn, task.reset(jax.random.key(0), prompt, jnp.int32(0)), tokens)[1]

    seen, legal = jax.vmap(jax.vmap(of_answer, (None, 0)))(index, answers.tokens)
    legal |= ~answers.token_mask[..., None]
    return dataclasses.replace(
        answers, observations=jnp.where(answers.written, seen, 0), legal_actions=legal
    )
