"""Questions in text with verifiers of the answers: tasks for language models."""

import abc
import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Protocol, TypeGuard

import numpy as np

from ipsrl.checking.arguments import checked, shown
from ipsrl.environments.environment import Environment, OutcomeSpace, check_number
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.structures import Outcomes, Prompts

Quotation = tuple[Sequence[int], Sequence[int]]
"""The tokens of an attempt, and of a critic's words on it, which may be none."""
Answer = Hashable  # the parsed content of tokens or text, before it is mapped to an outcome

IN_THIS_PROCESS = VerifierPool(workers=0)


class Questions(abc.ABC):
    """Prompts in text. Subclasses are frozen dataclasses.

    An answer is verified in two steps. `reader` parses a text without its prompt, in any process; `verify_answers`
    gives rewards and outcomes, in the process that holds the tables of the task.

    Attributes:
      stop_strings: strings that end an answer, besides the stop tokens of a model.
      reads_quickly: True if `reader` takes at most linear time for any text: it needs no process and no time limit.
      right_above: of the outcomes that it gives.
    """

    stop_strings: tuple[str, ...] = ()
    reads_quickly: ClassVar[bool] = False
    right_above: ClassVar[float] = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the fields only: tables can be made again, and the processes that read answers do not need them."""
        fields = dataclasses.fields(self)  # ty: ignore[invalid-argument-type]
        return {field.name: getattr(self, field.name) for field in fields}

    @property
    @abc.abstractmethod
    def num_prompts(self) -> int:
        """Number of different prompts."""

    @abc.abstractmethod
    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        """The prompt for a language model; `history` holds earlier answers as text."""

    def beginning(self, prompt: int) -> str:
        """Words with which the turn of a language model begins, such as "One colour is"; empty if it begins by itself.

        They belong to the prompt, and are no part of the answer that is verified.
        """
        return ""

    @property
    @abc.abstractmethod
    def reader(self) -> Callable[[str], Answer | None]:
        """Parses a text, None if it holds no answer; the function is picklable and takes bounded time."""

    @abc.abstractmethod
    def verify_answers(
        self, prompt_index: Sequence[int] | np.ndarray, answers: Sequence[Sequence[Answer | None]]
    ) -> Outcomes:
        """Rewards and outcomes of the parsed answers `[P][G]` to the prompts `prompt_index` `[P]`."""

    @abc.abstractmethod
    def outcome_space(self, prompt: int) -> OutcomeSpace:
        """The outcome space of a prompt, as in `Environment`."""

    @checked
    def verify_texts(
        self,
        prompt_index: Sequence[int] | np.ndarray,
        texts: Sequence[Sequence[str]],
        pool: VerifierPool = IN_THIS_PROCESS,
    ) -> Outcomes:
        """Rewards and outcomes of the texts `[P][G]` that a language model wrote for the prompts `prompt_index` `[P]`.

        There is no planning mask, because these texts do not consist of a task's own tokens.

        Raises:
          ValueError: a prompt does not exist, there are more or fewer groups than prompts, or their sizes differ.
        """
        if np.ndim(prompt_index) != 1:
            raise ValueError(f"prompt_index is {shown(prompt_index)}, it must be a list of prompts")
        if len(texts) != len(prompt_index):
            raise ValueError(f"{len(prompt_index)} prompts need as many groups of texts, got {len(texts)}")
        for prompt in prompt_index:
            check_number("prompt", prompt, self.num_prompts)
        if len({len(group) for group in texts}) > 1:
            raise ValueError("texts has groups of different sizes: give as many answers to each prompt")
        read = iter(pool.read(self.reader, [text for group in texts for text in group]))
        return self.verify_read(prompt_index, [[next(read) for _ in group] for group in texts], pool)

    def verify_read(
        self,
        prompt_index: Sequence[int] | np.ndarray,
        answers: Sequence[Sequence[Answer | None]],
        pool: VerifierPool,
    ) -> Outcomes:
        """`verify_answers`, by a task that works on unchecked text there as well, in the processes of `pool`."""
        return self.verify_answers(prompt_index, answers)


class HypothesisEnvironment(Environment, Protocol):
    """An environment whose outcomes are K known hypotheses, in any vocabulary.

    `TextTask` is one in its own compact tokens, `LanguageTask` around a `ListedTask` in those of a language model.

    Attributes:
      hypotheses: K names, in the order of their outcome ids.
      admissible: `[num_prompts, K]` bool, True if a hypothesis is a right answer to a prompt.
      stop_tokens: the tokens that end an answer.
    """

    @property
    def stop_tokens(self) -> tuple[int, ...]: ...

    @property
    def hypotheses(self) -> tuple[str, ...]: ...

    @property
    def admissible(self) -> np.ndarray: ...

    def render(self, hypothesis: int, rng: np.random.Generator | None = None) -> list[int]:
        """Answer tokens of a hypothesis with the stop token; canonical without `rng`, else a random surface form."""

    def question_text(self, prompt: int) -> str:
        """The question of a prompt, for people to read."""

    def answer_texts(self, answers: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """The text of answers, without stop tokens, for people to read."""

    def prompts_with_history(
        self, index: Sequence[int] | np.ndarray, histories: Sequence[Sequence[Sequence[int]]], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with its own earlier answers as lists of tokens, padded on the left.

        Args:
          width: columns of the result; by default as many as the longest of these prompts needs.

        Raises:
          ValueError: a prompt has more tokens than `width`, or the number of histories differs from that of prompts.
        """

    def prompts_with_critique(
        self, index: Sequence[int] | np.ndarray, quotations: Sequence[Quotation], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with an attempt at it and a critic's words on that."""

    def prompts_for_critique(
        self, index: Sequence[int] | np.ndarray, attempts: Sequence[Sequence[int]], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with an attempt at it that is to be criticised instead of answered again."""

    def history_width(self, answers: int) -> int:
        """Number of columns that hold every prompt with that many earlier answers."""


def writes(environment: Environment, method: str) -> TypeGuard[HypothesisEnvironment]:
    """Whether an environment has a method of `HypothesisEnvironment`, which others may lack."""
    return hasattr(environment, method)
