"""Searches to be imitated: right routes through a knowledge graph, many or one, and those of other questions."""

from typing import Any

import numpy as np

from ipsrl.environments.agents.knowledge_graph import FAILED, FIRST_ENTITY, STOP
from ipsrl.environments.agents.search_agent import SearchAgent

LONGEST = 3
"""Facts of a route."""


def known_routes(task: SearchAgent, prompt: int, routes: str) -> list[tuple[int, ...]]:
    """The routes of a prompt: `all` that visit no entity twice, the `chain` of its question, or, `shifted`, all of the
    next prompt.

    Shifted routes are walked from the prompt's own entity. So demonstrations are as many, as long and as diverse, but
    mostly end at a wrong answer.
    """
    if routes == "chain":
        return [task.questions[prompt][1]]
    shift = int(routes == "shifted")
    return task.routes((prompt + shift) % task.num_prompts, LONGEST)


def demonstrations(
    task: SearchAgent, routes: str, answers: int, seed: int = 0
) -> list[dict[str, Any]]:
    """For each prompt `{"prompt": number, "answers": tokens, "rewards": ones, "own": bools}`, for `StoredGroups`.

    Each answer follows one of the `known_routes`, at random, with random synonyms; a query that fails is repeated. When
    the route ends, or L look-ups are done, the last result is the answer. `own` is False for results. The rewards are
    those of a teacher: all that is shown is to be imitated.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for prompt in range(task.num_prompts):
        known = known_routes(task, prompt, routes)
        group = [search(task, prompt, known[rng.integers(len(known))], rng) for _ in range(answers)]
        own = [[place % 3 != 2 for place in range(len(answer))] for answer in group]
        rows.append({"prompt": prompt, "answers": group, "rewards": [1.0] * answers, "own": own})
    return rows


def search(
    task: SearchAgent, prompt: int, route: tuple[int, ...], rng: np.random.Generator
) -> list[int]:
    """The tokens of one answer."""
    at, tokens, asked = int(task.starts[prompt]), [], 0
    for relation in route:
        # Not used: without it other routes would be drawn than those of the published run.
        rng.random()
        failed = True
        while failed and asked < task.lookups:
            word = relation * task.synonyms + int(rng.integers(task.synonyms))
            failed = bool(rng.random() < task.failure)
            found = FIRST_ENTITY + int(task.heads[relation, at])
            tokens += [FIRST_ENTITY + at, task.first_word + word, FAILED if failed else found]
            asked += 1
        if not failed:
            at = int(task.heads[relation, at])
    return [*tokens, FIRST_ENTITY + at, STOP]
