"""Open questions with many right answers, such as "Name a country in Europe."

The natural task for what an objective does to the set of outcomes: every question has 2 to 118 right answers, all worth
the same, and a pretrained language model knows many of them.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import one_of
from ipsrl.checking.paths import expanded
from ipsrl.environments.environment import check_number
from ipsrl.environments.language.open_questions import OpenQuestion, read_questions
from ipsrl.environments.listed_task import check_space
from ipsrl.environments.reading.phrases import SENTENCE_STOP_STRINGS, STOP_STRINGS, read_phrase, read_sentence
from ipsrl.environments.text import TextTask

PACKAGED = Path(__file__).with_suffix(".json")
READERS = {"exact": read_phrase, "mention": read_sentence}


@dataclasses.dataclass(frozen=True)
class OneOfMany(TextTask):
    """Hypotheses are the answers to all questions asked; one is valid if it is a right answer to the prompt's question.

    The same word is the same hypothesis under every question: `orange` as a fruit and as a color. A spelling may mean
    different answers under different questions: "head" is `heads` of a coin, and `head` of the body.

    An answer in text is one phrase (`ipsrl.environments.reading.phrases`), in any spelling of the file or in its
    plural. Others are outside the hypothesis space, without reward. A compact question or answer is one symbol.

    The 30 questions of the package are checked in the tests by lists that others keep: countries and states by
    pycountry and the time zone database, elements by periodictable, languages by Pygments, colors by Matplotlib, days
    and months by `calendar`, Greek letters, signs of the zodiac and chess pieces by Unicode's names, numbers by
    arithmetic. The others were compared with WordNet 3.1, which has all mammals, animals that fly and nearly all parts
    of the body, but not all fruits, vegetables, instruments and sports. Countries in two continents are right in both.

    Of its sets, `eight` are the questions on which a model of 135 million parameters starts with a validity of 0.36 to
    0.70, `nine` others with 0.25 to 0.44, and `reachable` all 21 with 0.05 to 0.95.

    Attributes:
      source: path of a JSON file, as `ipsrl.environments.language.open_questions` reads it; "" for the package's.
      questions: names of questions or of sets of them, as `day` or `(eight, fruit)`; () for all.
      reading: of an answer in text: `exact`, its first phrase is a right answer and nothing else, or `mention`, exactly
        one right answer occurs as whole words in its first sentence, and none has an outcome if several do.
      contents: a hash of the questions and answers, so that a file that was changed is another environment.

    Raises:
      ValueError: the file is not of that form, a name is unknown, or there are more than 100,000 answers.
    """

    source: str = ""
    questions: str | tuple[str, ...] = ()
    reading: str = one_of(*READERS, default="exact")
    contents: str = dataclasses.field(init=False, default="")

    reads_quickly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "contents", hashlib.sha256(repr(self.asked).encode()).hexdigest()[:12])
        check_space(self.num_hypotheses, f"{self.source} has {self.num_hypotheses} answers", "ask fewer questions")

    @functools.cached_property
    def problem_table(self) -> dict[OpenQuestion, list[str]]:
        """The question of each prompt -> the names of its right answers."""
        names = (self.questions,) if isinstance(self.questions, str) else self.questions
        questions = read_questions(expanded(self.source, "source") if self.source else PACKAGED, names)
        return {question: [spellings[0] for spellings in question.answers] for question in questions}

    @functools.cached_property
    def answers(self) -> tuple[str, ...]:
        return tuple(sorted(set().union(*self.problem_table.values())))

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        # No answer ends with a question mark.
        return (*(f"{question.name}?" for question in self.asked), *self.answers)

    def observation_symbols(self, problem: OpenQuestion) -> list[str]:
        return [f"{problem.name}?"]

    def spell(self, answer: str, rng: np.random.Generator | None) -> list[str]:
        return [answer]

    def read_symbols(self, symbols: Sequence[str]) -> str | None:
        return symbols[0] if len(symbols) == 1 and symbols[0] in self._id_of else None

    def read_text(self, text: str) -> str | None:
        return self.reader(text)

    @property
    def reader(self) -> Callable[[str], str | None]:
        return READERS[self.reading]

    def meaning(self, problem: OpenQuestion, answer: str) -> str | None:
        if self.reading == "exact":
            return problem.meanings.get(answer, answer)
        found = problem.mentioned(answer) or {answer}
        return found.pop() if len(found) == 1 else None

    def answer_words(self, answer: str, rng: np.random.Generator | None) -> str:
        """The name of the answer: other spellings may mean another answer under another question."""
        return answer

    def prompt_words(self, problem: OpenQuestion, earlier: str) -> str:
        return f"{problem.question}\n{earlier}".strip()

    def beginning(self, prompt: int) -> str:
        check_number("prompt", prompt, self.num_prompts)
        return self.asked[prompt].beginning

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return STOP_STRINGS if self.reading == "exact" else SENTENCE_STOP_STRINGS
