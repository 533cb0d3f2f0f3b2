"""Text tasks: environments whose actions are the tokens of a compact language, with the same task in plain text.

A task shows observations and asks for one hypothesis that explains them. Many surface forms spell the same hypothesis:
`outcome_id` identifies the hypothesis, never the form. Small policies use the compact vocabulary; language models read
`prompt_text` and answer in text for `parse_text`. Both give the same outcome ids and rewards.
"""

import abc
import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked
from ipsrl.environments.environment import OutcomeSpace, check_number
from ipsrl.environments.language.questions import Answer, Questions, Quotation
from ipsrl.environments.reading.answer_text import WITHDRAWN, checksum, last_answer, tagged_answer
from ipsrl.environments.token_stream import TokenStream, of_each_answer, written_answers
from ipsrl.structures import Outcomes, Prompts, Trajectories

PADDING, BEGIN, STOP, ANSWER, EARLIER = range(5)
MARKS = ("<pad>", "<bos>", "<stop>", "<answer>", "<earlier>")
NO_OUTCOME = -1
SLACK = 2
# Spaces that would need gigabytes, or minutes, are refused before they are built.
LARGEST_SPACE = 100_000


@dataclasses.dataclass(frozen=True)
class TextTask(Checked, TokenStream, Questions):
    """A task with a finite hypothesis space, of K hypotheses, and several observation sets: the prompts.

    An answer ends with the stop token. Outcome ids are 0 .. K - 1 for the hypotheses, K and above for well-formed
    answers outside the hypothesis space (a stable hash of their content), and -1 for answers that do not parse or that
    break a rule of the answer format. The reward is 1 if the answer is valid for its prompt, else 0.

    The compact prompt is `<bos>, observations, <answer>`, padded on the left; in the benchmark's sequential protocol
    earlier answers precede `<answer>`, each after an `<earlier>` mark.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset({"question_mask", "planning_mask"})
    stop_tokens: ClassVar[tuple[int, ...]] = (STOP,)
    # Marker before an answer in text (`answer_text.marker`); None for answers between tags. And a whole line that
    # belongs to the one above it.
    answer_marker: ClassVar[re.Pattern[str] | None] = None
    answer_line: ClassVar[re.Pattern[str]]
    # The beginning of a line below the answer that leaves none.
    answer_withdrawn: ClassVar[re.Pattern[str]] = WITHDRAWN

    # Members that a task defines.

    @property
    @abc.abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """The task's own tokens; the first of them has the index `len(MARKS)`."""

    @property
    @abc.abstractmethod
    def planning_symbols(self) -> tuple[str, ...]:
        """The symbols of an answer that determine its structure, as opposed to its content."""

    @property
    @abc.abstractmethod
    def hypotheses(self) -> tuple[str, ...]:
        """The K canonical names, in the order of their ids."""

    @property
    @abc.abstractmethod
    def admissible(self) -> np.ndarray:
        """`[num_prompts, K]` bool, True if a hypothesis agrees with every observation of a prompt."""

    @property
    @abc.abstractmethod
    def longest_answer(self) -> int:
        """Number of tokens in the longest surface form from `render`, without the stop token."""

    @abc.abstractmethod
    def observation_symbols(self, prompt: int) -> list[str]:
        """The observations of a prompt in compact symbols."""

    @abc.abstractmethod
    def spell(self, hypothesis: int, rng: np.random.Generator | None) -> list[str]:
        """The symbols of an answer: canonical without `rng`, else of a random equivalent form."""

    @abc.abstractmethod
    def read_symbols(self, symbols: Sequence[str]) -> Answer | None:
        """Parses the symbols of an answer; None if they are not well-formed."""

    @abc.abstractmethod
    def read_text(self, text: str) -> Answer | None:
        """Parses a whole answer, lines in the plain spelling of `answer_text`; None if it is none."""

    @abc.abstractmethod
    def prompt_words(self, prompt: int, earlier: str) -> str:
        """`prompt_text`, with this part on earlier answers, which may be empty."""

    def answer_words(self, hypothesis: int, rng: np.random.Generator | None) -> str:
        """`answer_text`; by default the symbols between answer tags."""
        return f"<answer> {' '.join(self.spell(hypothesis, rng))} </answer>"

    def outcome(self, answer: Any) -> int:
        """Outcome id of a parsed answer; -1 if it breaks a rule of the format. By default an answer is a name."""
        known = self._id_of.get(answer)
        return self.outside(answer) if known is None else known

    @functools.cached_property
    def _id_of(self) -> dict[Any, int]:
        """The id of each hypothesis, by what `outcome` looks up."""
        return {name: i for i, name in enumerate(self.hypotheses)}

    def admitting(self, right: Sequence[Sequence[Any]]) -> np.ndarray:
        """`admissible`, of the right answers to each prompt as `outcome` looks them up."""
        table = np.zeros((len(right), self.num_hypotheses), bool)
        for row, answers in zip(table, right, strict=True):
            row[[self._id_of[answer] for answer in answers]] = True
        return table

    def meaning(self, prompt: int, answer: Answer) -> Answer | None:
        """What an answer in text means under its prompt, None if nothing; by default the same under every prompt."""
        del prompt
        return answer

    def explains(self, prompt: int, answer: Any) -> bool:
        """Whether an answer outside the hypothesis space is nevertheless valid for the prompt."""
        del prompt, answer
        return False

    # Members shared by all tasks.

    @functools.cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens, in the order of their indices: padding, `<bos>`, the stop token, two marks, the symbols."""
        return MARKS + self.symbols

    @functools.cached_property
    def _token_of(self) -> dict[str, int]:
        return {symbol: token for token, symbol in enumerate(self.vocabulary)}

    @functools.cached_property
    def _is_planning(self) -> np.ndarray:
        """`[vocabulary_size]` bool, True for the tokens of `planning_symbols`."""
        return np.isin(self.vocabulary, self.planning_symbols)

    @property
    def num_hypotheses(self) -> int:
        """K."""
        return len(self.hypotheses)

    @property
    def num_prompts(self) -> int:
        return len(self.admissible)

    @property
    def vocabulary_size(self) -> int:
        return len(self.vocabulary)

    @property
    def max_tokens(self) -> int:
        """The longest surface form, the stop token, and two more, so that a slightly too long answer may still end
        itself.
        """
        return self.longest_answer + 1 + SLACK

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        return self.prompts_with_history(range(self.num_prompts), [()] * self.num_prompts)

    def prompts_with_history(
        self, index: Sequence[int] | np.ndarray, histories: Sequence[Sequence[Sequence[int]]], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with its own earlier answers, padded on the left to `width` columns.

        Args:
          index: `[P]`, which prompts.
          histories: for each prompt its earlier answers, each a list of tokens.
          width: columns of the result; by default as many as the longest of these prompts needs.

        Raises:
          ValueError: a prompt has more than `width` tokens, or the number of histories differs from the number of
            prompts.
        """
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
        """The prompts `index` `[P]`, each with an attempt and an `<earlier>` mark with nothing behind it: what follows
        is a critique and not an answer.
        """
        return self.prompts_with_history(index, [[attempt, ()] for attempt in attempts], width)

    def history_width(self, answers: int) -> int:
        """Number of columns that hold every prompt with that many earlier answers, each after an `<earlier>` mark."""
        return self.prompt_length + answers * (self.max_tokens + 1)

    def prompt_tokens(self, prompt: int, history: Sequence[Sequence[int]] = ()) -> list[int]:
        """The compact prompt, not padded, with the answers of `history` up to their stop tokens."""
        check_number("prompt", prompt, self.num_prompts)
        tokens = [BEGIN, *(self._token_of[symbol] for symbol in self.observation_symbols(prompt))]
        for answer in history:
            answer = [int(token) for token in answer]
            tokens += [EARLIER, *(answer[: answer.index(STOP)] if STOP in answer else answer)]
        return [*tokens, ANSWER]

    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        check_number("prompt", prompt, self.num_prompts)
        return self.prompt_words(prompt, listed_history(history))

    def answer_text(self, hypothesis: int, rng: np.random.Generator | None = None) -> str:
        """The answer in the benchmark's text format: canonical without `rng`, else a random equivalent form."""
        check_number("hypothesis", hypothesis, self.num_hypotheses)
        return self.answer_words(hypothesis, rng)

    def question_text(self, prompt: int) -> str:
        """The compact prompt as a policy reads it, without the marks around it."""
        return " ".join(self.observation_symbols(prompt))

    def answer_texts(self, answers: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """The compact answers as a policy wrote them, without stop tokens."""
        return [" ".join(self.vocabulary[int(token)] for token in answer if token != STOP) for answer in answers]

    def render(self, hypothesis: int, rng: np.random.Generator | None = None) -> list[int]:
        """Answer tokens of a hypothesis with the stop token; canonical without `rng`, else a random surface form."""
        check_number("hypothesis", hypothesis, self.num_hypotheses)
        return [*(self._token_of[symbol] for symbol in self.spell(hypothesis, rng)), STOP]

    def parse(self, tokens: Sequence[int] | np.ndarray) -> int:
        """Outcome id of answer tokens up to the first stop token; -1 if there is no stop token."""
        return _outcome_of_tokens(self, np.asarray(tokens, np.int32).tobytes())[0]

    @checked
    def parse_text(self, text: str, prompt: int = 0) -> int:
        """Outcome id of a language model's answer to a prompt, which may have other text around it.

        The answer behind the last marker counts, even if it breaks a rule and therefore has no outcome. The prompt
        matters only to tasks with a `meaning` of their own.
        """
        check_number("prompt", prompt, self.num_prompts)
        return self._outcome_in(prompt, self.reader(text))[0]

    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Rewards and outcomes `[P, G]` and the planning mask `[P, G, T]`, NumPy; only tokens under the mask count."""
        answers = written_answers(trajectories)
        verified = [[_outcome_of_tokens(self, answer.tobytes()) for answer in group] for group in answers]
        tokens, mask = np.asarray(trajectories.tokens), np.asarray(trajectories.token_mask)
        planning_mask = mask & self._is_planning[np.where(mask, tokens, PADDING)]
        return dataclasses.replace(self._outcomes_of(trajectories.prompts.index, verified), planning_mask=planning_mask)

    @property
    def reader(self) -> Callable[[str], Answer | None]:
        if self.answer_marker is None:
            return functools.partial(tagged_answer, self.read_text)
        return functools.partial(
            last_answer, self.answer_marker, self.answer_line, self.read_text, withdrawn=self.answer_withdrawn
        )

    def verify_answers(
        self, prompt_index: Sequence[int] | np.ndarray, answers: Sequence[Sequence[Answer | None]]
    ) -> Outcomes:
        return self._outcomes_of(prompt_index, of_each_answer(self._outcome_in, prompt_index, answers))

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        check_number("prompt", prompt, self.num_prompts)
        return OutcomeSpace(names=self.hypotheses, rewards=self.admissible[prompt].astype(np.float32))

    def outside(self, content: str) -> int:
        """A stable outcome id, within int32, of a well-formed answer outside the K hypotheses."""
        return self.num_hypotheses + checksum(content) % (2**31 - self.num_hypotheses)

    def _outcome_in(self, prompt: int, answer: Answer | None) -> tuple[int, Answer | None]:
        return self._outcome_of(None if answer is None else self.meaning(prompt, answer))

    def _outcome_of(self, answer: Answer | None) -> tuple[int, Answer | None]:
        return (NO_OUTCOME if answer is None else self.outcome(answer)), answer

    def _outcomes_of(self, prompt_index: Any, verified: list[list[tuple[int, Answer | None]]]) -> Outcomes:
        index = np.asarray(prompt_index)
        outcome_id = np.array([[outcome for outcome, _ in group] for group in verified], np.int32)
        known = (outcome_id >= 0) & (outcome_id < self.num_hypotheses)
        valid = known & self.admissible[index[:, None], np.where(known, outcome_id, 0)]
        for row, column in np.argwhere(outcome_id >= self.num_hypotheses):
            valid[row, column] = self.explains(int(index[row]), verified[row][column][1])
        return Outcomes(rewards=valid.astype(np.float32), outcome_id=outcome_id)


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


@checked
def listed_history(history: Sequence[str]) -> str:
    """The part of a text prompt that lists earlier answers; empty if there are none."""
    if not history:
        return ""
    earlier = "\n".join(answer.strip() for answer in history)
    return f"\nYou have already given these answers:\n{earlier}\nYour next answer has to differ from each of them.\n"


def check_space(size: int, what: str, choose: str = "choose fewer") -> None:
    """Raises ValueError if there are more hypotheses than are enumerated; `what` begins the message."""
    if size > LARGEST_SPACE:
        raise ValueError(f"{what}, more than the {LARGEST_SPACE} that are enumerated: {choose}")


def check_choice(what: str, value: Any, choices: Sequence[Any] | range) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if isinstance(choices, range):
        # 3.0 and True are in a range of integers as well.
        if type(value) is not int or value not in choices:
            raise ValueError(f"{what} must be an integer from {choices[0]} to {choices[-1]}, got {value!r}")
    elif value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(map(str, choices))}, got {value!r}")
