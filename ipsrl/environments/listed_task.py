"""Listed tasks: questions in text whose answers are known beforehand, as a list of hypotheses.

A task shows observations and asks for one hypothesis that explains them. Many forms spell the same hypothesis: an
outcome is the hypothesis, never the form.
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
from ipsrl.environments.language.questions import Answer, Questions
from ipsrl.environments.reading.answer_text import WITHDRAWN, checksum, last_answer, tagged_answer
from ipsrl.environments.token_stream import of_each_answer
from ipsrl.structures import Outcomes

NO_OUTCOME = -1
# Spaces that would need gigabytes, or minutes, are refused before they are built.
LARGEST_SPACE = 100_000


@dataclasses.dataclass(frozen=True)
class ListedTask(Checked, Questions):
    """A task with a finite hypothesis space, of K hypotheses, and several observation sets: the prompts.

    Outcome ids are 0 .. K - 1 for the hypotheses, K and above for well-formed answers outside the hypothesis space (a
    stable hash of their content), and -1 for answers that do not parse or that break a rule of the answer format. The
    reward is 1 if the answer is valid for its prompt, else 0.
    """

    # Marker before an answer in text (`answer_text.marker`); None for answers between tags. And a whole line that
    # belongs to the one above it.
    answer_marker: ClassVar[re.Pattern[str] | None] = None
    answer_line: ClassVar[re.Pattern[str]]
    # The beginning of a line below the answer that leaves none.
    answer_withdrawn: ClassVar[re.Pattern[str]] = WITHDRAWN

    # Members that a task defines.

    @property
    @abc.abstractmethod
    def hypotheses(self) -> tuple[str, ...]:
        """The K canonical names, in the order of their ids."""

    @property
    @abc.abstractmethod
    def admissible(self) -> np.ndarray:
        """`[num_prompts, K]` bool, True if a hypothesis agrees with every observation of a prompt."""

    @abc.abstractmethod
    def read_text(self, text: str) -> Answer | None:
        """Parses a whole answer, lines in the plain spelling of `answer_text`; None if it is none."""

    @abc.abstractmethod
    def prompt_words(self, prompt: int, earlier: str) -> str:
        """`prompt_text`, with this part on earlier answers, which may be empty."""

    @abc.abstractmethod
    def answer_words(self, hypothesis: int, rng: np.random.Generator | None) -> str:
        """`answer_text`."""

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

    @property
    def num_hypotheses(self) -> int:
        """K."""
        return len(self.hypotheses)

    @property
    def num_prompts(self) -> int:
        return len(self.admissible)

    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        check_number("prompt", prompt, self.num_prompts)
        return self.prompt_words(prompt, listed_history(history))

    def answer_text(self, hypothesis: int, rng: np.random.Generator | None = None) -> str:
        """The answer in the benchmark's text format: canonical without `rng`, else a random equivalent form."""
        check_number("hypothesis", hypothesis, self.num_hypotheses)
        return self.answer_words(hypothesis, rng)

    @checked
    def parse_text(self, text: str, prompt: int = 0) -> int:
        """Outcome id of a language model's answer to a prompt, which may have other text around it.

        The answer behind the last marker counts, even if it breaks a rule and therefore has no outcome. The prompt
        matters only to tasks with a `meaning` of their own.
        """
        check_number("prompt", prompt, self.num_prompts)
        return self._outcome_in(prompt, self.reader(text))[0]

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
