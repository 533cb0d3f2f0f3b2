"""Small random knowledge graphs, and questions that take one to four facts."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from ipsrl.checking.fields import Checked, between
from ipsrl.environments.environment import check_number

ENTITIES = (
    "Ada", "Boris", "Clara", "Dora", "Emil", "Frida", "Georg", "Hanna", "Ivan", "Julia", "Karl", "Laura", "Martin",
    "Nora", "Oskar", "Paula", "Quentin", "Rosa", "Stefan", "Tilda", "Ulrich", "Vera", "Walter", "Xenia", "Yannick",
    "Zita",
)  # fmt: skip
RELATIONS = (
    (("teacher", "tutor"), ("pupil", "learner")),
    (("doctor", "physician"), ("patient", "sufferer")),
    (("landlord", "host"), ("tenant", "lodger")),
    (("guardian", "keeper"), ("ward", "charge")),
    (("manager", "boss"), ("employee", "assistant")),
    (("lawyer", "attorney"), ("client", "customer")),
)
"""Relation -> its words, and the words of its inverse: the pupil of one's teacher is oneself."""
LONGEST_CHAIN = 4
PADDING, STOP, ASKED, FAILED = range(4)
MARKS = ("<pad>", "<stop>", "?", "<failed>")
FIRST_ENTITY = len(MARKS)


@dataclasses.dataclass(frozen=True)
class KnowledgeGraph(Checked):
    """N entities and R relations, each a random permutation of the entities, so that it has an inverse.

    A question is an entity and a chain of h relations: "the teacher of the doctor of Ada" has two. Its answer is where
    the chain ends. No entity occurs twice on the way. With inverses there are 2 R directed relations, relation r and
    R + r its inverse, each of `synonyms` words; so there are many other routes to an answer, shorter and longer ones.

    Attributes:
      entities: N, 4 to 26.
      relations: R, 1 to 6.
      synonyms: words of each directed relation, 1 or 2.
      hops: lengths of the chains, each 1 to 4; they take turns from prompt to prompt.
      shortest: number of facts of the shortest route from a question's entity to its answer; 0 for any.
      problems: number of questions, at most 1024; no two are the same.
      seed: of the graph and the questions.

    Raises:
      ValueError: a field is out of range, or the graph has too few such questions.
    """

    entities: int = between(4, len(ENTITIES), 12)
    relations: int = between(1, len(RELATIONS), 4)
    synonyms: int = between(1, 2, 2)
    hops: tuple[int, ...] = between(1, LONGEST_CHAIN, (1, 2, 3, 4))
    shortest: int = between(0, LONGEST_CHAIN, 0)
    problems: int = between(1, 1024, 64)
    seed: int = between(0, 2**32 - 1, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hops or len(set(self.hops)) < len(self.hops):
            raise ValueError(f"hops is {self.hops}, it must have one length or more, each once")
        _ = self.questions

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all directed relations; word w is one of relation w // synonyms."""
        inverse_last = [[pair[side] for pair in RELATIONS[: self.relations]] for side in (0, 1)]
        return tuple(word for side in inverse_last for words in side for word in words[: self.synonyms])

    @functools.cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens: marks, entities and words."""
        return (*MARKS, *ENTITIES[: self.entities], *self.words)

    @property
    def first_word(self) -> int:
        """The first token that is a word."""
        return FIRST_ENTITY + self.entities

    @functools.cached_property
    def heads(self) -> np.ndarray:
        """`[2 R, N]` int32, the entity to which a directed relation leads from an entity."""
        rng = np.random.default_rng(self.seed)
        forward = np.array([rng.permutation(self.entities) for _ in range(self.relations)], np.int32)
        return np.concatenate([forward, np.argsort(forward, axis=1).astype(np.int32)])

    @functools.cached_property
    def distance(self) -> np.ndarray:
        """`[N, N]` int32, the facts of the shortest route between two entities; N if there is none."""
        steps = np.zeros((self.entities, self.entities), bool)
        steps[np.arange(self.entities), self.heads] = True
        found, reached = np.full(steps.shape, self.entities, np.int32), np.eye(self.entities, dtype=bool)
        for facts in range(self.entities):
            found = np.minimum(found, np.where(reached, facts, self.entities))
            reached = reached @ steps
        return found

    @functools.cached_property
    def questions(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The entity and the chain of each prompt."""
        rng = np.random.default_rng([self.seed, 1])
        queues = []
        for hops in self.hops:
            chains = list(itertools.product(range(self.relations), repeat=hops))
            asked = [(start, chain) for start in range(self.entities) for chain in chains if self._asks(start, chain)]
            queues.append([asked[place] for place in rng.permutation(len(asked))])
        wanted = [self.hops[prompt % len(self.hops)] for prompt in range(self.problems)]
        for hops, queue in zip(self.hops, queues, strict=True):
            if len(queue) < wanted.count(hops):
                how = f" with a shortest route of {self.shortest}" if self.shortest else ""
                raise ValueError(
                    f"the graph has only {len(queue)} questions of hops={hops}{how}, but {wanted.count(hops)} are to "
                    "be asked: choose fewer problems, more entities or relations, or another seed"
                )
        return tuple(queues[prompt % len(queues)][prompt // len(queues)] for prompt in range(self.problems))

    def _asks(self, start: int, chain: tuple[int, ...]) -> bool:
        visited = self.visited(start, chain)
        short = not self.shortest or self.distance[start, visited[-1]] == self.shortest
        return bool(short) and len(set(visited)) == len(visited)

    def visited(self, start: int, route: tuple[int, ...]) -> list[int]:
        """The entities on a route of directed relations, the first and the last included."""
        return list(itertools.accumulate(route, lambda at, relation: int(self.heads[relation, at]), initial=start))

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """`[num_prompts]` int32, the entities of the questions."""
        return np.array([start for start, _ in self.questions], np.int32)

    @functools.cached_property
    def answers(self) -> np.ndarray:
        """`[num_prompts]` int32, the entity that is the right answer."""
        return np.array([self.visited(*question)[-1] for question in self.questions], np.int32)

    def routes(self, prompt: int, longest: int) -> list[tuple[int, ...]]:
        """All routes of at most `longest` directed relations from the question's entity to its answer, shortest first.

        None visits an entity twice.
        """
        goal, found, ways = int(self.answers[prompt]), [], [(int(self.starts[prompt]), ())]
        for _ in range(longest):
            longer = []
            for start, route in ways:
                seen = self.visited(start, route)
                for relation in range(2 * self.relations):
                    head = int(self.heads[relation, seen[-1]])
                    if head not in seen:
                        (found if head == goal else longer).append((start, (*route, relation)))
            ways = longer
        return [route for _, route in found]

    def phrase(self, prompt: int) -> str:
        """The subject of a question, such as `the teacher of the doctor of Ada`; the last relation comes first."""
        start, chain = self.questions[prompt]
        return "".join(f"the {self.words[relation * self.synonyms]} of " for relation in chain[::-1]) + ENTITIES[start]

    def question_text(self, prompt: int) -> str:
        """The question of a prompt, for people to read."""
        check_number("prompt", prompt, self.problems)
        return f"{self.phrase(prompt)}?"

    def answer_texts(self, answers: Iterable[Sequence[int] | np.ndarray]) -> list[str]:
        """The text of answers in tokens, for people to read."""
        return [" ".join(self.vocabulary[int(token)] for token in answer if token != STOP) for answer in answers]
