"""Searches that leave a promising thought, to teach a prior that does."""

import dataclasses
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import probability
from ipsrl.environments.demonstrations import Demonstrations
from ipsrl.environments.tasks.graph_search import START_TOKEN, SWITCH_TOKEN, GraphSearch
from ipsrl.environments.text import STOP, TextTask


@dataclasses.dataclass(frozen=True)
class EarlySwitches(Demonstrations):
    """Searches for `GraphSearch` that switch too early.

    A search tries the branches in the order of the alphabet, one thought each. In a branch that leads nowhere it walks
    at random to a dead end, and switches. In one that leads to the goal it follows a random path there, and ends. But
    with probability `early` it cuts the first such path: after 1 to depth - 1 of its vertices it switches to the next
    branch, and never comes back. There always is a next one, because a branch before the last leads to the goal. If
    none of them leads there, the search ends at a dead end: wrong, and all wrong searches are cut ones.

    Attributes:
      early: a probability; 0.5 corrupts half of the searches.
      the others: as in `Demonstrations`.

    Raises:
      ValueError: a field is out of range.
    """

    early: float = probability(0.5)

    task_type: ClassVar[type[TextTask]] = GraphSearch

    def _tokens(self, task: GraphSearch, rng: np.random.Generator) -> list[list[list[int]]]:
        return [
            [
                _written(_search(task, prompt, bool(rng.random() < self.early), rng))
                for _ in range(self.answers)
            ]
            for prompt in range(task.num_prompts)
        ]


def _written(search: list[list[int]]) -> list[int]:
    tokens = [
        token
        for walk in search
        for token in (SWITCH_TOKEN, *(START_TOKEN + vertex for vertex in walk))
    ]
    return [*tokens[1:], STOP]


def _search(task: GraphSearch, prompt: int, cut: bool, rng: np.random.Generator) -> list[list[int]]:
    thoughts = []
    for branch in range(1, task.branches + 1):
        paths = task.walks[task.admissible[prompt] & (task.walks[:, 0] == branch)]
        if not len(paths):
            thoughts.append(_dead_end(task.graphs[prompt], branch, rng))
            continue
        path = rng.choice(paths).tolist()
        if not cut:
            return [*thoughts, path]
        thoughts.append(path[: rng.integers(1, task.depth)])
        cut = False
    return thoughts


def _dead_end(graph: np.ndarray, branch: int, rng: np.random.Generator) -> list[int]:
    walk = [branch]
    while len(heads := np.flatnonzero(graph[walk[-1]])):
        walk.append(int(rng.choice(heads)))
    return walk
