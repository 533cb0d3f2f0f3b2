"""A dialogue of two: the policy asks, a tool answers, and the policy has to repeat what it heard."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.token_stream import TokenStream
from ipsrl.structures import Outcomes, Prompts, Trajectories

QUERIES, RESULTS = 8, 4
ASK, RESULT = 0, 1
"""The prompt's only token, and the first word of the tool, before the result itself."""
FIRST_QUERY = 2
FIRST_RESULT = FIRST_QUERY + QUERIES


@dataclasses.dataclass(frozen=True)
class LookUp(TokenStream):
    """Tokens: a query, two dictated ones (a mark and a random result), and an answer, right if it is the result again.

    The query is the outcome: all eight are equally good, and only the tool knows the result.
    """

    vocabulary_size: ClassVar[int] = FIRST_RESULT + RESULTS
    max_tokens: ClassVar[int] = 4
    stop_tokens: ClassVar[tuple[int, ...]] = ()
    verifies_on_host: ClassVar[bool] = False

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        tokens = np.full((4, 1), ASK, np.int32)
        return Prompts(np.arange(4), tokens, np.ones((4, 1), bool))

    def reset(self, key: Array, prompt_index: Array, member: Array) -> dict[str, Array]:
        result = FIRST_RESULT + jax.random.randint(key, (), 0, RESULTS)
        return {"last": jnp.int32(ASK), "position": jnp.int32(0), "result": result, "member": member}

    def observe(self, state: dict[str, Array]) -> Array:
        return state["last"]

    def dictated(self, state: dict[str, Array]) -> Array:
        return jnp.select([state["position"] == 1, state["position"] == 2], [RESULT, state["result"]], -1)

    def step(self, state: dict[str, Array], token: Array) -> dict[str, Array]:
        return state | {"last": jnp.int32(token), "position": state["position"] + 1}

    def finished(self, state: dict[str, Array]) -> Array:
        return state["position"] == self.max_tokens

    def verify(self, trajectories: Trajectories) -> Outcomes:
        query = trajectories.tokens[..., 0] - FIRST_QUERY
        right = trajectories.tokens[..., 3] == trajectories.final_state["result"]
        asked = (query >= 0) & (query < QUERIES)
        return Outcomes(rewards=jnp.float32(asked & right), outcome_id=jnp.where(asked, query, -1))


@dataclasses.dataclass(frozen=True)
class LookUpOnHost(LookUp):
    """The tool is on the host; it says nothing to the first query, and a mark more to odd ones. The answer ends it.

    After a silent tool the policy answers at once. The right answer is the number of the query, modulo 4.
    """

    max_tokens: ClassVar[int] = 6
    uses_tools: ClassVar[bool] = True
    longest_reply: ClassVar[int] = 3

    def reset(self, key: Array, prompt_index: Array, member: Array) -> dict[str, Array]:
        nothing = jnp.zeros(self.longest_reply, jnp.int32)
        return {
            "last": jnp.int32(ASK),
            "position": jnp.int32(0),
            "heard": jnp.bool_(False),
            "answered": jnp.bool_(False),
            "reply": nothing,
            "length": jnp.int32(0),
            "spoken": jnp.int32(0),
        }

    def dictated(self, state: dict[str, Array]) -> Array:
        return jnp.where(self._speaks(state), state["reply"][state["spoken"]], -1)

    def step(self, state: dict[str, Array], token: Array) -> dict[str, Array]:
        speaks = self._speaks(state)
        answered = state["heard"] & ~speaks
        after = {"last": jnp.int32(token), "position": state["position"] + 1}
        return state | after | {"answered": answered, "spoken": state["spoken"] + speaks}

    def finished(self, state: dict[str, Array]) -> Array:
        return state["answered"]

    def waiting(self, state: dict[str, Array]) -> Array:
        return (state["position"] == 1) & ~state["heard"]

    def hear(self, state: dict[str, Array], reply: Array, length: Array) -> dict[str, Array]:
        return state | {"reply": reply, "length": length, "heard": jnp.bool_(True)}

    def call(self, prompt_index, answers, own):
        replies = []
        for answer in answers:
            query = int(answer[-1]) - FIRST_QUERY
            marks = [] if query == 0 else [RESULT] * (1 + query % 2)
            replies.append([*marks, FIRST_RESULT + query % RESULTS] if marks else [])
        return replies

    def verify(self, trajectories: Trajectories) -> Outcomes:
        query = trajectories.tokens[..., 0] - FIRST_QUERY
        right = trajectories.final_state["last"] == FIRST_RESULT + query % RESULTS
        asked = (query >= 0) & (query < QUERIES) & ~trajectories.truncated
        return Outcomes(rewards=jnp.float32(asked & right), outcome_id=jnp.where(asked, query, -1))

    @staticmethod
    def _speaks(state: dict[str, Array]) -> Array:
        return state["spoken"] < state["length"]
