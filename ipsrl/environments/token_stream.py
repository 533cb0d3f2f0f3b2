"""The base of all environments whose actions are the tokens of a text."""

import abc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ipsrl.structures import Outcomes, Prompts, Sizes, Trajectories


class TokenStream(abc.ABC):
    """An `Environment` whose actions are tokens of a text, in a compact vocabulary or that of a language model.

    The policy sees the token before each action; first, the last token of the prompt. Every token is legal, and any of
    the stop tokens ends the answer. Outcomes need not be listed beforehand. Subclasses are frozen dataclasses.

    Attributes:
      vocabulary_size: V, of prompts and answers.
      max_tokens: T, the largest number of tokens of an answer, the stop token included.
      stop_tokens: the tokens that end an answer.
      prompt_table: all prompts, padded on the left, as NumPy arrays; cached, because every step reads it.
    """

    vocabulary_size: int
    max_tokens: int
    stop_tokens: tuple[int, ...]
    prompt_table: Prompts

    optional_fields: ClassVar[frozenset[str]] = frozenset()
    verifies_on_host: ClassVar[bool] = True
    uses_tools: ClassVar[bool] = False
    right_above: ClassVar[float] = 0.0
    """Threshold of `verify`'s outcomes above which an answer is right, for rewards that were stored."""

    @abc.abstractmethod
    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Verifies trajectories as in `Environment`."""

    @property
    def num_prompts(self) -> int:
        return len(self.prompt_table.index)

    @property
    def prompt_length(self) -> int:
        return self.prompt_table.tokens.shape[1]

    @property
    def num_observations(self) -> int:
        return self.vocabulary_size

    @property
    def sizes(self) -> Sizes:
        """Outcomes are not numbered: any text may be one."""
        return Sizes(num_prompts=self.num_prompts, vocabulary_size=self.vocabulary_size)

    def prompts(self, index: Array | np.ndarray) -> Prompts:
        """Prompts as in `Environment`, by NumPy; only a traced index makes the table a constant of the program."""
        if isinstance(index, Tracer):
            return jax.tree.map(lambda column: jnp.asarray(column)[index], self.prompt_table)
        rows = np.asarray(index, np.int32)
        return jax.tree.map(lambda column: column[rows], self.prompt_table)

    def reset(self, key: Array, prompt_index: Array, member: Array) -> tuple[Array, ...]:
        return jnp.asarray(self.prompt_table.tokens[:, -1])[prompt_index], jnp.bool_(False)

    def observe(self, state: tuple[Array, ...]) -> Array:
        return state[0]

    def legal(self, state: tuple[Array, ...]) -> Array | None:
        return None

    def dictated(self, state: tuple[Array, ...]) -> Array | None:
        return None

    def step(self, state: tuple[Array, ...], token: Array) -> tuple[Array, ...]:
        token = jnp.asarray(token, jnp.int32)
        return token, state[1] | jnp.isin(token, jnp.array(self.stop_tokens, jnp.int32))

    def finished(self, state: tuple[Array, ...]) -> Array:
        return state[1]


def of_each_answer(function: Callable, prompts: Iterable[Any], groups: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """`[P][G]`, what a function of a prompt's number and an answer makes of each answer in the prompts' groups."""
    return [[function(int(prompt), answer) for answer in group] for prompt, group in zip(prompts, groups, strict=True)]


def written_answers(trajectories: Trajectories) -> Iterator[list[np.ndarray]]:
    """The answers of each group as int32 tokens, those that the environment dictated included."""
    tokens, written = np.asarray(trajectories.tokens, np.int32), np.asarray(trajectories.written)
    for group, group_mask in zip(tokens, written, strict=True):
        yield [answer[real] for answer, real in zip(group, group_mask, strict=True)]
