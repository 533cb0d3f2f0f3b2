"""Text tasks: environments whose actions are the tokens of a compact language, with the same task in plain text.

Small policies use the compact vocabulary; language models read `prompt_text` and answer in text for `parse_text`.
Complete answers have the same outcome ids and rewards in both. A compact answer without its stop token has no outcome;
text is read also where it is truncated.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ipsrl.environments.environment import check_number
from ipsrl.environments.listed_task import NO_OUTCOME, ListedTask
from ipsrl.environments.questions import Answer, Quotation
from ipsrl.environments.token_stream import TokenStream, written_answers
from ipsrl.structures import Outcomes, Prompts, Trajectories

PADDING, BEGIN, STOP, ANSWER, EARLIER = range(5)
MARKS = ("<pad>", "<bos>", "<stop>", "<answer>", "<earlier>")
SLACK = 2


@dataclasses.dataclass(frozen=True)
class TextTask(ListedTask, TokenStream):
    """A listed task in a compact language as well; an answer in it ends with the stop token.

    The compact prompt is `<bos>, observations, <answer>`, padded on the left; in the benchmark's sequential protocol
    earlier answers precede `<answer>`, each after an `<earlier>` mark.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset({"question_mask", "planning_mask"})
    stop_tokens: ClassVar[tuple[int, ...]] = (STOP,)

    # Members that a task defines, besides those of `ListedTask`.

    @property
    @abc.abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """The task's own tokens; the first of them has the index `len(MARKS)`."""

    planning_symbols: ClassVar[tuple[str, ...]] = ()
    """The symbols of an answer that determine its structure, as opposed to its content."""

    @abc.abstractmethod
    def observation_symbols(self, problem: Any) -> list[str]:
        """A problem in compact symbols."""

    @abc.abstractmethod
    def read_symbols(self, symbols: Sequence[str]) -> Answer | None:
        """Parses the symbols of an answer; None if they are not well-formed."""

    def spell(self, answer: Any, rng: np.random.Generator | None) -> list[str]:
        """The symbols of an answer: canonical without `rng`, else of a random equivalent form.

        By default an answer is the tuple of its symbols.
        """
        return list(answer)

    def name(self, answer: Any) -> str:
        """The canonical name of an answer; by default its symbols."""
        return " ".join(self.spell(answer, None))

    @functools.cached_property
    def longest_answer(self) -> int:
        """Number of symbols in the longest form that `spell` gives; by default that of canonical forms."""
        return max(len(self.spell(answer, None)) for answer in self.answers)

    # Members shared by all tasks.

    @functools.cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens, in the order of their indices: padding, `<bos>`, the stop token, two marks, the symbols.

        Raises:
          ValueError: a symbol occurs twice, or is one of these marks.
        """
        vocabulary = MARKS + self.symbols
        if len(set(vocabulary)) < len(vocabulary):
            symbol = next(symbol for symbol in self.symbols if vocabulary.count(symbol) > 1)
            raise ValueError(
                f"symbols of {type(self).__name__} must differ from each other and from {', '.join(MARKS)}, but "
                f"{symbol!r} does not"
            )
        return vocabulary

    @functools.cached_property
    def _token_of(self) -> dict[str, int]:
        return {symbol: token for token, symbol in enumerate(self.vocabulary)}

    def _tokens_of(self, symbols: Sequence[str]) -> list[int]:
        try:
            return [self._token_of[symbol] for symbol in symbols]
        except KeyError as missing:
            raise ValueError(
                f"{type(self).__name__} writes {' '.join(symbols)!r}, but {missing} is not among its symbols"
            ) from None

    @functools.cached_property
    def _is_planning(self) -> np.ndarray:
        """`[vocabulary_size]` bool, True for the tokens of `planning_symbols`."""
        return np.isin(self.vocabulary, self.planning_symbols)

    @property
    def vocabulary_size(self) -> int:
        return len(self.vocabulary)

    @property
    def max_tokens(self) -> int:
        """The longest surface form, the stop token, and two more, by which a slightly longer answer may end itself."""
        return self.longest_answer + 1 + SLACK

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        return self.prompts_with_history(range(self.num_prompts), [()] * self.num_prompts)

    def prompts_with_history(
        self, index: Sequence[int] | np.ndarray, histories: Sequence[Sequence[Sequence[int]]], width: int | None = None
    ) -> Prompts:
        """Prompts as in `HypothesisEnvironment`."""
        index = np.asarray(index, np.int32)
        if len(histories) != len(index):
            raise ValueError(f"{len(index)} prompts need as many histories, got {len(histories)}")
        rows = [self.prompt_tokens(int(prompt), history) for prompt, history in zip(index, histories, strict=True)]
        longest = max(map(len, rows))
        width = longest if width is None else width
        if longest > width:
            raise ValueError(
                f"the longest of these prompts has {longest} tokens, more than the {width} columns asked for"
            )
        tokens = np.array([[PADDING] * (width - len(row)) + row for row in rows], np.int32)
        return Prompts(index, tokens, tokens != PADDING, tokens >= len(MARKS))

    def prompts_with_critique(
        self, index: Sequence[int] | np.ndarray, quotations: Sequence[Quotation], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with an attempt and behind it a critic's words, which may be none."""
        quoted = [[attempt, words] if len(words) else [attempt] for attempt, words in quotations]
        return self.prompts_with_history(index, quoted, width)

    def prompts_for_critique(
        self, index: Sequence[int] | np.ndarray, attempts: Sequence[Sequence[int]], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with an attempt and a bare `<earlier>` mark: what follows is a critique."""
        return self.prompts_with_history(index, [[attempt, ()] for attempt in attempts], width)

    def history_width(self, answers: int) -> int:
        """Number of columns that hold every prompt with that many earlier answers, each after an `<earlier>` mark."""
        return self.prompt_length + answers * (self.max_tokens + 1)

    def prompt_tokens(self, prompt: int, history: Sequence[Sequence[int]] = ()) -> list[int]:
        """The compact prompt, not padded, with the answers of `history` up to their stop tokens."""
        check_number("prompt", prompt, self.num_prompts)
        tokens = [BEGIN, *self._tokens_of(self.observation_symbols(self.asked[prompt]))]
        for answer in history:
            answer = [int(token) for token in answer]
            tokens += [EARLIER, *(answer[: answer.index(STOP)] if STOP in answer else answer)]
        return [*tokens, ANSWER]

    def question_text(self, prompt: int) -> str:
        """The compact prompt as a policy reads it, without the marks around it."""
        return " ".join(self.observation_symbols(self.asked[prompt]))

    def answer_texts(self, answers: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """The compact answers as a policy wrote them, without stop tokens."""
        return [" ".join(self.vocabulary[int(token)] for token in answer if token != STOP) for answer in answers]

    def render(self, hypothesis: int, rng: np.random.Generator | None = None) -> list[int]:
        check_number("hypothesis", hypothesis, self.num_hypotheses)
        return [*self._tokens_of(self.spell(self.answers[hypothesis], rng)), STOP]

    def parse(self, tokens: Sequence[int] | np.ndarray) -> int:
        """Outcome id of answer tokens up to the first stop token; -1 if there is no stop token."""
        return _outcome_of_tokens(self, np.asarray(tokens, np.int32).tobytes())[0]

    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Rewards and outcomes `[P, G]` and the planning mask `[P, G, T]`, NumPy.

        An answer is read with the tokens that the environment dictated; only tokens of the policy can be planning.
        """
        answers = written_answers(trajectories)
        verified = [[_outcome_of_tokens(self, answer.tobytes()) for answer in group] for group in answers]
        tokens, mask = np.asarray(trajectories.tokens), np.asarray(trajectories.token_mask)
        planning_mask = mask & self._is_planning[np.where(mask, tokens, PADDING)]
        return dataclasses.replace(self._outcomes_of(trajectories.prompts.index, verified), planning_mask=planning_mask)


# Policies repeat themselves: most answers of a batch have been verified before.
@functools.lru_cache(maxsize=1 << 16)
def _outcome_of_tokens(task: TextTask, tokens: bytes) -> tuple[int, Answer | None]:
    answer = np.frombuffer(tokens, np.int32).tolist()
    if STOP not in answer:
        return NO_OUTCOME, None
    answer = answer[: answer.index(STOP)]
    if any(not len(MARKS) <= token < task.vocabulary_size for token in answer):
        return NO_OUTCOME, None
    return task._outcome_of(task.read_symbols([task.vocabulary[token] for token in answer]))
