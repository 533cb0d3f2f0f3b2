"""An agent that looks facts up in a knowledge graph, in turns, until it answers: all of it inside one program."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import below_one, between, one_of, probability
from ipsrl.environments.agents.knowledge_graph import (
    ASKED,
    ENTITIES,
    FAILED,
    FIRST_ENTITY,
    PADDING,
    STOP,
    KnowledgeGraph,
)
from ipsrl.environments.agents.searches import ENTITY, RELATION, RESULT, Searches, queries_in_a_state, searches_of
from ipsrl.environments.environment import OutcomeSpace, check_number
from ipsrl.environments.token_stream import TokenStream
from ipsrl.structures import Outcomes, Prompts, Sizes, Trajectories

State = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class SearchAgent(KnowledgeGraph, TokenStream):
    """Questions of a `KnowledgeGraph`, answered by looking facts up.

    A turn is an entity and a word for a relation, two tokens of the policy, and the result, a token that the
    environment dictates: an entity, or `<failed>` with probability `failure`. An entity and the stop token answer. So
    an answer that looks up Ada's teacher and then that person's doctor is

        Ada teacher [Emil] Emil physician [Rosa] Rosa <stop>

    Only what makes a turn is legal, and after `lookups` queries only an answer. A right answer after l look-ups is
    worth worth[l], the last number for all that are more; everything else is worth 0. Which queries fail is sampled
    in `reset`, independently for each place in the sequence of a trajectory's queries.

    Every relation is a planning token, so `stratified_grpo` with its default key has numbers of look-ups as strata.

    What counts as an outcome: the `answer`, entity e as e; the answer with the number of `lookups`, as e + N l; or the
    `behaviour`, see `Searches`. `searches` measures all three.

    Source: the experiment that arXiv 2510.06214 (Stratified GRPO) needs; the language is ours.

    Attributes:
      lookups: L, maximum number of queries, 1 to 8.
      failure: probability that a query fails.
      worth: of right answers, each 0 to 1, by number of look-ups from 0.
      grounded: whether queries and answers may name only the question's entity and the last result. If False, any
        entity, so that a policy may know answers by heart.
      outcome: `answer`, `lookups` or `behaviour`.
      sees: before each action, the last `token`, for policies that remember; or a `state` that tells the prompt, the
        number of look-ups, the last result and the entity just named, for tables.
      the others: as in `KnowledgeGraph`.

    Raises:
      ValueError: as `KnowledgeGraph`, a field is out of range, no answer is worth anything, a question cannot be
        answered within L look-ups, or there are more behaviours than int32 can number.
    """

    lookups: int = between(1, 8, 5)
    failure: float = below_one(0.0)
    worth: tuple[float, ...] = probability((1.0,))
    grounded: bool = True
    outcome: str = one_of("answer", "lookups", "behaviour", default="answer")
    sees: str = one_of("token", "state", default="token")

    verifies_on_host: ClassVar[bool] = False
    optional_fields: ClassVar[frozenset[str]] = frozenset({"question_mask", "planning_mask"})
    stop_tokens: ClassVar[tuple[int, ...]] = (STOP,)

    def __post_init__(self) -> None:
        super().__post_init__()
        needed = int(self.distance[self.starts, self.answers].max()) if self.grounded else 0
        if self.lookups < needed:
            raise ValueError(f"lookups is {self.lookups}, but a question needs {needed}: allow as many")
        if not any(self.worths[needed:]):
            raise ValueError(f"worth is {self.worth}, so that no right answer to some question is worth anything")
        choices = queries_in_a_state(self, self.grounded)
        if self.outcome == "behaviour" and (choices + 1) ** self.lookups * self.entities > np.iinfo(np.int32).max:
            raise ValueError(
                f"{choices} queries in up to {self.lookups} turns make more behaviours than int32 can number: "
                "choose fewer lookups, relations or entities"
            )

    @property
    def worths(self) -> tuple[float, ...]:
        """The rewards of a right answer after 0 to L look-ups."""
        return (*self.worth, *self.worth[-1:] * self.lookups)[: self.lookups + 1]

    @property
    def vocabulary_size(self) -> int:
        return len(self.vocabulary)

    @property
    def max_tokens(self) -> int:
        return 3 * self.lookups + 2

    @property
    def num_observations(self) -> int:
        states = self.problems * (self.lookups + 1) * self.entities * (self.entities + 1)
        return states if self.sees == "state" else self.vocabulary_size

    @property
    def sizes(self) -> Sizes:
        outcomes = {"answer": self.entities, "lookups": self.entities * (self.lookups + 1)}.get(self.outcome)
        return Sizes(self.num_prompts, outcomes, vocabulary_size=self.vocabulary_size)

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        asked = [(start, [relation * self.synonyms for relation in chain]) for start, chain in self.questions]
        tokens = np.full((self.problems, max(self.hops) + 2), PADDING, np.int32)
        for row, (start, words) in zip(tokens, asked, strict=True):
            row[-len(words) - 2 :] = [FIRST_ENTITY + start, *(self.first_word + word for word in words), ASKED]
        real = tokens != PADDING
        return Prompts(np.arange(self.problems, dtype=np.int32), tokens, real, real & (tokens != ASKED))

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        numbers = {
            "prompt": prompt_index,
            "last": ASKED,
            "place": ENTITY,
            "named": self.entities,
            "result": FAILED,
            "at": jnp.asarray(self.starts)[prompt_index],
            "queries": 0,
        }
        fails = jax.random.bernoulli(key, self.failure, (self.lookups,))
        state = {name: jnp.asarray(number, jnp.int32) for name, number in numbers.items()}
        return state | {"ended": jnp.bool_(False), "fails": fails}

    def observe(self, state: State) -> Array:
        if self.sees == "token":
            return state["last"]
        return self.number_of(**{name: state[name] for name in STATE})

    def number_of(self, prompt: Array, queries: Array, at: Array, named: Array) -> Array:
        """The number of a state: `queries` look-ups done, `at` the last result, `named` the entity just named, or N."""
        place = (prompt * (self.lookups + 1) + queries) * self.entities + at
        return place * (self.entities + 1) + named

    def legal(self, state: State) -> Array:
        """`[V]`; any action where the result follows."""
        return self.legal_in(*(state[name] for name in STATE)) | (state["place"] == RESULT)

    def legal_in(self, prompt: Array, queries: Array, at: Array, named: Array) -> Array:
        """`[V]`, the legal actions of a policy in the state that `number_of` numbers."""
        token = jnp.arange(self.vocabulary_size)
        entity = token - FIRST_ENTITY
        is_entity = (entity >= 0) & (token < self.first_word)
        if self.grounded:
            is_entity &= (entity == jnp.asarray(self.starts)[prompt]) | (entity == at)
        goes_on = (token == STOP) | ((token >= self.first_word) & (queries < self.lookups))
        return jnp.where(named == self.entities, is_entity, goes_on)

    def dictated(self, state: State) -> Array:
        return jnp.where(state["place"] == RESULT, state["result"], -1)

    def step(self, state: State, token: Array) -> State:
        token = jnp.asarray(token, jnp.int32)
        place, named = state["place"], state["named"]
        answers = (place == RELATION) & (token == STOP)
        asks = (place == RELATION) & (token != STOP)
        heard = (place == RESULT) & (token != FAILED)

        relation = jnp.maximum(token - self.first_word, 0) // self.synonyms
        head = jnp.asarray(self.heads)[relation, jnp.minimum(named, self.entities - 1)]
        result = jnp.where(state["fails"][state["queries"]], FAILED, FIRST_ENTITY + head)
        names = jnp.where(place == ENTITY, token - FIRST_ENTITY, named)
        return state | {
            "last": token,
            "place": jnp.where(answers, place, (place + 1) % 3),
            "named": jnp.where(place == RESULT, self.entities, names),
            "at": jnp.where(heard, token - FIRST_ENTITY, state["at"]),
            "queries": state["queries"] + asks,
            "result": jnp.where(asks, result, state["result"]),
            "ended": state["ended"] | answers,
        }

    def finished(self, state: State) -> Array:
        return state["ended"]

    def searches(self, trajectories: Trajectories) -> Searches:
        """The searches of sampled or stored answers, read from their tokens; jittable."""
        return searches_of(self, trajectories, self.lookups, self.grounded)

    def verify(self, trajectories: Trajectories) -> Outcomes:
        done = self.searches(trajectories)
        right = done.answer == jnp.asarray(self.answers)[trajectories.prompts.index][:, None]
        worth = jnp.asarray(self.worths, jnp.float32)[done.lookups]
        outcomes = {
            "answer": done.answer,
            "lookups": jnp.where(done.answer >= 0, done.answer + self.entities * done.lookups, -1),
            "behaviour": done.behaviour,
        }
        return Outcomes(
            rewards=jnp.where(right, worth, 0.0),
            outcome_id=outcomes[self.outcome],
            planning_mask=trajectories.token_mask & (trajectories.tokens >= self.first_word),
        )

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        check_number("prompt", prompt, self.num_prompts)
        counts = range(self.lookups + 1) if self.outcome == "lookups" else (None,)
        if self.outcome == "behaviour" or (self.outcome == "answer" and len(set(self.worths)) > 1):
            raise ValueError(f"outcome={self.outcome} does not say what an answer is worth here: choose lookups")
        right = np.arange(self.entities) == self.answers[prompt]
        worth = [self.worths[-1 if count is None else count] for count in counts]
        names = [name if n is None else f"{name}, {n} look-ups" for n in counts for name in ENTITIES[: self.entities]]
        return OutcomeSpace(tuple(names), np.outer(worth, right).ravel().astype(np.float32))

    def answer_probs(self, logits: Array) -> Array:
        """`[num_prompts, L + 1, N]`, the exact probability to answer an entity after a number of look-ups.

        The chance of failures is part of it. The expected reward of a prompt is the sum over l of worth[l] times the
        entry of its right answer. Differentiable.

        Args:
          logits: `[num_observations, V]`, of a policy that sees the state.

        Raises:
          ValueError: the policy sees tokens, or the table has another shape.
        """
        if self.sees != "state" or logits.shape != (self.num_observations, self.vocabulary_size):
            raise ValueError(f"logits must have the shape [states, actions] with sees=state, not {list(logits.shape)}")
        shape = self.problems, self.lookups + 1, self.entities, self.entities + 1
        legal = jnp.vectorize(self.legal_in, signature="(),(),(),()->(v)")(*jnp.indices(shape))
        # Where no such state exists, nothing may be legal.
        legal = legal | ~legal.any(axis=-1, keepdims=True)
        probs = jax.nn.softmax(jnp.where(legal, logits.reshape(*shape, -1), -jnp.inf))
        leads = jax.nn.one_hot(self.heads.repeat(self.synonyms, axis=0), self.entities)
        mass = jax.nn.one_hot(self.starts, self.entities)
        ended = []
        for queries in range(self.lookups + 1):
            before, after_naming = probs[:, queries, :, -1], probs[:, queries, :, :-1]
            naming = mass[..., None] * before[..., FIRST_ENTITY : self.first_word]
            ended.append((naming * after_naming[..., STOP]).sum(axis=1))
            asking = naming[..., None] * after_naming[..., self.first_word :]
            found = jnp.einsum("paew,wef->pf", asking, leads)
            mass = (1 - self.failure) * found + self.failure * asking.sum(axis=(2, 3))
        return jnp.stack(ended, axis=1)


STATE = ("prompt", "queries", "at", "named")
"""The parts of a state that a policy sees, in the order of `SearchAgent.number_of`."""
