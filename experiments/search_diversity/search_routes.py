"""Searches to be imitated: right routes through a knowledge graph, many or one, and mistakes of a known frequency."""

import dataclasses
from typing import Any

import numpy as np

from ipsrl.environments.knowledge_graph import FAILED, FIRST_ENTITY, LONGEST_CHAIN, STOP
from ipsrl.environments.search_agent import SearchAgent
from ipsrl.fields import Checked, at_least, below_one, between, one_of, positive


@dataclasses.dataclass(frozen=True)
class SearchRoutes(Checked):
    """Answers to the prompts of a `SearchAgent` that follow routes from the question's entity to its answer.

    Diverse ones follow a route that is random among `all` of at most `longest` facts that visit no entity twice; narrow
    ones always the same: the `chain` of the question, or the first of the `shortest` ones. Words are random synonyms. A
    query that fails is repeated. When the route ends, or L look-ups are done, the last result is the answer.

    With probability `slip` a query, from its entity, asks for a random directed relation instead; the rest of the route
    goes on as planned, from where that leads, and so mostly ends at a wrong answer.

    Attributes:
      routes: `all`, `chain` or `shortest`.
      longest: of `all` routes, 1 to 4 facts and at most L.
      slip: at least 0 and below 1.
      answers: to each prompt.
      seed: 0 or more.

    Raises:
      ValueError: a field is out of range. Also, when rows are made: a question has no such route.
    """

    routes: str = one_of("all", "chain", "shortest", default="all")
    longest: int = between(1, LONGEST_CHAIN, 3)
    slip: float = below_one(0.0)
    answers: int = positive(16)
    seed: int = at_least(0, 0)

    def rows(self, task: SearchAgent) -> list[dict[str, Any]]:
        """For each prompt `{"prompt": number, "answers": tokens, "rewards": ones, "own": bools}`, for `StoredGroups`.

        `own` is False for results. The rewards are those of a teacher: all that is shown is to be imitated.
        """
        rng = np.random.default_rng(self.seed)
        rows = []
        for prompt in range(task.num_prompts):
            if not (known := self.known(task, prompt)):
                raise ValueError(
                    f"routes={self.routes} has none for prompt {prompt} with longest={self.longest} and "
                    f"lookups={task.lookups}: raise them"
                )
            group = [
                self._search(task, prompt, known[rng.integers(len(known))], rng)
                for _ in range(self.answers)
            ]
            own = [[place % 3 != 2 for place in range(len(answer))] for answer in group]
            rows.append(
                {"prompt": prompt, "answers": group, "rewards": [1.0] * len(group), "own": own}
            )
        return rows

    def known(self, task: SearchAgent, prompt: int) -> list[tuple[int, ...]]:
        """The routes of a prompt among which each answer chooses."""
        if self.routes == "chain":
            chain = task.questions[prompt][1]
            return [chain] * (len(chain) <= task.lookups)
        longest = (
            self.longest
            if self.routes == "all"
            else int(task.distance[task.starts[prompt], task.answers[prompt]])
        )
        found = task.routes(prompt, min(longest, task.lookups))
        return found if self.routes == "all" else found[:1]

    def _search(
        self, task: SearchAgent, prompt: int, route: tuple[int, ...], rng: np.random.Generator
    ) -> list[int]:
        at, tokens, asked = int(task.starts[prompt]), [], 0
        for planned in route:
            relation = (
                int(rng.integers(2 * task.relations)) if rng.random() < self.slip else planned
            )
            failed = True
            while failed and asked < task.lookups:
                word = relation * task.synonyms + int(rng.integers(task.synonyms))
                failed = bool(rng.random() < task.failure)
                found = int(task.heads[relation, at])
                tokens += [
                    FIRST_ENTITY + at,
                    task.first_word + word,
                    FAILED if failed else FIRST_ENTITY + found,
                ]
                asked += 1
                at = at if failed else found
        return [*tokens, FIRST_ENTITY + at, STOP]
