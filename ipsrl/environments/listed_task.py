"""Listed tasks: questions in text whose answers are known beforehand, as a list of hypotheses.

A task shows observations and asks for one hypothesis that explains them. It is the outcome, in any of its many forms.
"""

import abc
import collections
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked
from ipsrl.environments.environment import OutcomeSpace, check_number
from ipsrl.environments.questions import Answer, Questions
from ipsrl.environments.reading.answer_text import WITHDRAWN, checksum, last_answer, tagged_answer
from ipsrl.environments.token_stream import of_each_answer
from ipsrl.structures import Outcomes

NO_OUTCOME = -1
# Spaces that would need gigabytes, or minutes, are refused before they are built.
LARGEST_SPACE = 100_000


@dataclasses.dataclass(frozen=True)
class ListedTask(Checked, Questions):
    """A task with a finite hypothesis space, of K hypotheses, and several problems: the prompts.

    A problem and an answer are values of the task's own, which can be hashed. The task states which there are
    (`problem_table`, `answers`), and how it writes and reads them; all else follows.

    Outcome ids are 0 .. K - 1 for the hypotheses, in the order of `answers`, K and above for well-formed answers
    outside the hypothesis space (a stable hash of their name), and -1 for answers that do not parse or that break a
    rule of the answer format. The reward is 1 if the answer is right for its prompt, else 0.

    Attributes:
      lists_all: whether the hypothesis space holds every answer: any other one has no outcome.
      answer_marker: the marker before an answer in text (`answer_text.marker`); None for answers between tags.
      answer_line: with a marker, a whole line that belongs to the one above it.
      answer_withdrawn: with a marker, the beginning of a line below the answer that leaves none.
    """

    lists_all: ClassVar[bool] = False
    answer_marker: ClassVar[re.Pattern[str] | None] = None
    answer_line: ClassVar[re.Pattern[str]]
    answer_withdrawn: ClassVar[re.Pattern[str]] = WITHDRAWN

    # Members that a task defines.

    @property
    @abc.abstractmethod
    def answers(self) -> tuple[Any, ...]:
        """The K hypotheses, in the order of their ids, each as `outcome` looks it up."""

    @property
    @abc.abstractmethod
    def problem_table(self) -> Mapping[Any, Iterable[Any] | np.ndarray]:
        """The problem of each prompt -> those of `answers` that are right, or `[K]` bool; cached, if it takes long."""

    @abc.abstractmethod
    def prompt_words(self, problem: Any, earlier: str) -> str:
        """`prompt_text`, with this part on earlier answers, which may be empty."""

    @abc.abstractmethod
    def read_text(self, text: str) -> Answer | None:
        """Parses a whole answer, lines in the plain spelling of `answer_text`; None, and no error, if it is none."""

    def name(self, answer: Any) -> str:
        """The canonical name of an answer; no two have the same."""
        return str(answer)

    def answer_words(self, answer: Any, rng: np.random.Generator | None) -> str:
        """`answer_text`; by default the name between answer tags."""
        return f"<answer> {self.name(answer)} </answer>"

    def meaning(self, problem: Any, answer: Answer) -> Answer | None:
        """An answer in text as it is meant under a problem, None if it means nothing; by default the answer itself.

        Compact answers are read without their problem, and mean what they are.
        """
        return answer

    def outcome(self, answer: Any) -> int:
        """Outcome id of a parsed answer; -1 if it breaks a rule of the format."""
        known = self._id_of.get(answer)
        if known is None:
            return NO_OUTCOME if self.lists_all else self.outside(self.name(answer))
        return known

    def explains(self, problem: Any, answer: Any) -> bool:
        """Whether an answer outside the hypothesis space is nevertheless right for a problem."""
        return False

    def worth(self, outcome_id: np.ndarray) -> np.ndarray:
        """The reward of right answers with these outcomes, float32."""
        return np.ones(np.shape(outcome_id), np.float32)

    # Members shared by all tasks.

    @functools.cached_property
    def asked(self) -> tuple[Any, ...]:
        """The problem of each prompt."""
        if not self.problem_table:
            raise ValueError(f"problem_table of {type(self).__name__} is empty: a task needs a problem")
        return tuple(self.problem_table)

    @functools.cached_property
    def hypotheses(self) -> tuple[str, ...]:
        """The K names, in the order of their ids."""
        names = tuple(map(self.name, self.answers))
        if twice := [name for name, times in collections.Counter(names).items() if times > 1]:
            raise ValueError(f"{type(self).__name__} calls two answers {twice[0]!r}: each needs a name of its own")
        return names

    @functools.cached_property
    def _id_of(self) -> dict[Any, int]:
        id_of: dict[Any, int] = {}
        for i, answer in enumerate(self.answers):
            if id_of.setdefault(answer, i) != i:
                raise ValueError(f"answers of {type(self).__name__} has {answer!r} twice: list each answer once")
        return id_of

    @functools.cached_property
    def admissible(self) -> np.ndarray:
        """`[num_prompts, K]` bool, whether a hypothesis is a right answer to a prompt.

        Raises:
          ValueError: `problem_table` has an answer not among `answers`, or another array; or these have one twice.
        """
        table = np.zeros((self.num_prompts, self.num_hypotheses), bool)
        for row, (problem, right) in zip(table, self.problem_table.items(), strict=True):
            if isinstance(right, np.ndarray):
                if right.dtype != bool or right.shape != row.shape:
                    raise ValueError(
                        f"problem_table of {type(self).__name__} for {problem!r} must be [{len(row)}] bool"
                    )
                row[:] = right
                continue
            try:
                row[[self._id_of[answer] for answer in right]] = True
            except (KeyError, TypeError) as missing:
                raise ValueError(
                    f"problem_table of {type(self).__name__} has {missing} for {problem!r}, which must be among answers"
                ) from None
        return table

    @property
    def num_hypotheses(self) -> int:
        """K."""
        return len(self.answers)

    @property
    def num_prompts(self) -> int:
        return len(self.asked)

    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        check_number("prompt", prompt, self.num_prompts)
        return self.prompt_words(self.asked[prompt], listed_history(history))

    def answer_text(self, hypothesis: int, rng: np.random.Generator | None = None) -> str:
        """The answer in the benchmark's text format: canonical without `rng`, else a random equivalent form."""
        check_number("hypothesis", hypothesis, self.num_hypotheses)
        return self.answer_words(self.answers[hypothesis], rng)

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
        return OutcomeSpace(self.hypotheses, self.admissible[prompt] * self.worth(np.arange(self.num_hypotheses)))

    def outside(self, content: str) -> int:
        """A stable outcome id, within int32, of a well-formed answer outside the K hypotheses."""
        return self.num_hypotheses + checksum(content) % (2**31 - self.num_hypotheses)

    def _outcome_in(self, prompt: int, answer: Answer | None) -> tuple[int, Answer | None]:
        return self._outcome_of(None if answer is None else self.meaning(self.asked[prompt], answer))

    def _outcome_of(self, answer: Answer | None) -> tuple[int, Answer | None]:
        return (NO_OUTCOME if answer is None else self.outcome(answer)), answer

    def _outcomes_of(self, prompt_index: Any, verified: list[list[tuple[int, Answer | None]]]) -> Outcomes:
        index = np.asarray(prompt_index)
        outcome_id = np.array([[outcome for outcome, _ in group] for group in verified], np.int32)
        known = (outcome_id >= 0) & (outcome_id < self.num_hypotheses)
        right = known & self.admissible[index[:, None], np.where(known, outcome_id, 0)]
        for row, column in np.argwhere(outcome_id >= self.num_hypotheses):
            right[row, column] = self.explains(self.asked[index[row]], verified[row][column][1])
        return Outcomes(rewards=right * self.worth(outcome_id), outcome_id=outcome_id)


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
