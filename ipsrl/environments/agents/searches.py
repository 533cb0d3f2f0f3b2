"""The answer of a search, its number of look-ups, and its queries whatever their words."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.environments.agents.knowledge_graph import FAILED, FIRST_ENTITY, PADDING, STOP, KnowledgeGraph
from ipsrl.structures import Trajectories, select

ENTITY, RELATION, RESULT = range(3)
"""Places of a turn."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Searches:
    """Searches of sampled answers, each field `[P, G]` int32.

    Attributes:
      answer: the entity that was named; -1 if there is none, or the answer breaks a rule of the environment.
      lookups: queries, failed ones included.
      behaviour: number of the canonical sequence of the queries that did not fail, whatever the words, together with
        the answer: equal sequences have equal numbers. So do a few different ones, at random, where there are more
        sequences than int32 can number. -1 as for `answer`.
    """

    answer: Array
    lookups: Array
    behaviour: Array


def queries_in_a_state(graph: KnowledgeGraph, grounded: bool) -> int:
    """The number of queries that differ in more than their words."""
    return (2 if grounded else graph.entities) * 2 * graph.relations


def searches_of(graph: KnowledgeGraph, trajectories: Trajectories, lookups: int, grounded: bool) -> Searches:
    """Reads answers in turns of three tokens: an entity, a word or the stop token, and what was found.

    Args:
      trajectories: with 3 `lookups` + 2 columns of tokens.
      lookups: maximum number of queries.
      grounded: whether only the question's entity and the last result may be named.
    """
    tokens = jnp.where(trajectories.written, trajectories.tokens, PADDING)
    tokens = jnp.pad(tokens, ((0, 0), (0, 0), (0, 3 * lookups + 3 - tokens.shape[-1])))
    starts, heads = jnp.asarray(graph.starts), jnp.asarray(graph.heads)
    start = jnp.broadcast_to(starts[trajectories.prompts.index][:, None], tokens.shape[:2])
    choices = queries_in_a_state(graph, grounded)

    none = jnp.full(start.shape, -1, jnp.int32)
    queries = jnp.zeros(start.shape, jnp.int32)
    found = Searches(none, queries, none)
    going = jnp.ones(start.shape, bool)
    at, code = start, queries
    for turn in range(lookups + 1):
        entity = tokens[..., 3 * turn + ENTITY] - FIRST_ENTITY
        word = tokens[..., 3 * turn + RELATION]
        result = tokens[..., 3 * turn + RESULT]
        relation = (word - graph.first_word) // graph.synonyms
        head = result - FIRST_ENTITY
        going &= (entity >= 0) & (entity < graph.entities)
        if grounded:
            going &= (entity == start) | (entity == at)
        # Beyond the largest int32 it begins again below zero.
        done = Searches(entity, queries, (code * graph.entities + entity) & (2**31 - 1))
        found = jax.tree.map(functools.partial(select, going & (word == STOP)), done, found)
        truth = heads[jnp.maximum(relation, 0), jnp.clip(entity, 0, graph.entities - 1)]
        going &= (relation >= 0) & ((result == FAILED) | (head == truth)) & (turn < lookups)
        heard = going & (result != FAILED)
        subject = jnp.where(entity == at, 0, 1) if grounded else entity
        query = subject * 2 * graph.relations + relation + 1
        code = jnp.where(heard, code * (choices + 1) + query, code)
        at = jnp.where(heard, head, at)
        queries += going
    return dataclasses.replace(found, lookups=queries)
