"""The questions of a knowledge graph in plain words, for language models that search in a folder of texts."""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import one_of, probability
from ipsrl.checking.paths import expanded
from ipsrl.environments.agents.knowledge_graph import ENTITIES, KnowledgeGraph
from ipsrl.environments.environment import OutcomeSpace, check_number
from ipsrl.environments.listed_task import NO_OUTCOME, listed_history
from ipsrl.environments.questions import Questions
from ipsrl.environments.reading.answer_text import checksum, tagged_answer
from ipsrl.environments.token_stream import of_each_answer
from ipsrl.structures import Outcomes

CALL = re.compile(r"^ *search\((.*)\) *$", re.MULTILINE)
TEXTS = "facts.txt"

Answer = tuple[str, tuple[str, ...]]
"""The name between the tags, and what was searched for."""


@dataclasses.dataclass(frozen=True)
class SearchQuestions(KnowledgeGraph, Questions):
    """Questions of a `KnowledgeGraph` in words: "Who is the teacher of the doctor of Ada?"

    They are for a `ToolUse` with the tool `search(folder=...)`, whose folder `write_texts` fills:

        questions = SearchQuestions(hops=(1, 2))
        questions.write_texts("facts")
        environment = ToolUse(questions, "tokenizer", vocabulary, tools=make_tools("search(folder=facts)"))

    A line of the model such as `search(teacher of Ada)` is a look-up; its answer stands between tags,
    `<answer> Emil </answer>`. It is worth as much as in `SearchAgent`, but a look-up never fails, and nothing stops a
    model that names a person by heart. There is no planning mask in text, so the stratum `length` is all there is.

    An outcome is the `answer`, entity e as e, or the `behaviour`: a hash of the answer and the searches in which there
    are a person and a relation, whatever the words.

    Attributes:
      worth: of right answers, each 0 to 1, by number of look-ups from 0.
      outcome: `answer` or `behaviour`.
      the others: as in `KnowledgeGraph`.

    Raises:
      ValueError: as `KnowledgeGraph`, or no answer is worth anything.
    """

    worth: tuple[float, ...] = probability((1.0,))
    outcome: str = one_of("answer", "behaviour", default="answer")

    reads_quickly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(self.worth):
            raise ValueError(f"worth is {self.worth}, so that no answer is worth anything")

    @property
    def num_prompts(self) -> int:
        return self.problems

    def write_texts(self, folder: str | Path) -> None:
        """Writes all facts into `facts.txt`, one to a paragraph, in both directions; the folder is made if needed.

        The person that a fact is about stands in it twice, and the one who is found once, so that a search by BM25
        tells "the teacher of Ada" from "the one whose teacher is Ada".
        """
        path = expanded(folder, "the folder of texts")
        path.mkdir(parents=True, exist_ok=True)
        paragraphs = []
        for relation, entity in np.ndindex(self.heads.shape):
            name, found = ENTITIES[entity], ENTITIES[int(self.heads[relation, entity])]
            words = self.words[relation * self.synonyms :][: self.synonyms]
            paragraphs.append(f"{name}: the {' or '.join(words)} of {name} is {found}.")
        (path / TEXTS).write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")

    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        check_number("prompt", prompt, self.problems)
        return f"""\
Who is {self.phrase(prompt)}?

You may look facts up, one at a time. Each line such as
search({self.words[0]} of {ENTITIES[0]})
is answered by a line. One may ask for: {", ".join(self.words)}.
{listed_history(history)}
In the end write only the name between these tags, for instance:
<answer> {ENTITIES[1]} </answer>"""

    @property
    def reader(self) -> Callable[[str], Answer | None]:
        return read_search

    def verify_answers(
        self, prompt_index: Sequence[int] | np.ndarray, answers: Sequence[Sequence[Answer | None]]
    ) -> Outcomes:
        verified = of_each_answer(self._verified, prompt_index, answers)
        shape = len(verified), len(verified[0]) if verified else 0
        table = np.array(verified, np.float64).reshape(*shape, 2)
        return Outcomes(rewards=table[..., 0].astype(np.float32), outcome_id=table[..., 1].astype(np.int32))

    def _verified(self, prompt: int, answer: Answer | None) -> tuple[float, int]:
        """Reward and outcome."""
        entity = self._entities.get(answer[0].lower()) if answer else None
        if answer is None or entity is None:
            return 0.0, NO_OUTCOME
        right = entity == int(self.answers[prompt])
        worth = self.worth[min(len(answer[1]), len(self.worth) - 1)]
        behaviour = checksum(repr((entity, self.behaviour(answer[1])))) % 2**31
        return worth * right, entity if self.outcome == "answer" else behaviour

    def behaviour(self, searches: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """The person and the directed relation of each search, without those that name none or several."""
        found = []
        for search in searches:
            words = set(re.findall(r"\w+", search.lower()))
            entities = {self._entities[word] for word in words & self._entities.keys()}
            relations = {self._relations[word] for word in words & self._relations.keys()}
            if len(entities) == len(relations) == 1:
                found.append((entities.pop(), relations.pop()))
        return tuple(found)

    @functools.cached_property
    def _entities(self) -> dict[str, int]:
        return {name.lower(): number for number, name in enumerate(ENTITIES[: self.entities])}

    @functools.cached_property
    def _relations(self) -> dict[str, int]:
        return {word: number // self.synonyms for number, word in enumerate(self.words)}

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        check_number("prompt", prompt, self.problems)
        if self.outcome == "behaviour" or len(set(self.worth)) > 1:
            raise ValueError("the outcomes cannot be listed with their worth: choose outcome=answer and one worth")
        right = np.arange(self.entities) == self.answers[prompt]
        return OutcomeSpace(ENTITIES[: self.entities], (self.worth[0] * right).astype(np.float32))


def read_search(text: str) -> Answer | None:
    """The name between the last tags of a text, and the arguments of its calls of `search`; None without a name."""
    name = tagged_answer(str, text)
    return None if name is None else (name.strip(" .\n"), tuple(CALL.findall(text)))
