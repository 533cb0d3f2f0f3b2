"""Search in a graph, written as thoughts: walks from the start, of which the last is the answer."""

import dataclasses
import functools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import between, open_probability, probability
from ipsrl.environments.tasks.drawing import drawn_problems
from ipsrl.environments.text import MARKS, STOP, TextTask
from ipsrl.environments.token_stream import of_each_answer, written_answers
from ipsrl.structures import Trajectories

SWITCH = "alternatively"
SWITCH_TOKEN = len(MARKS)
# Of the vertex A; the others follow it.
START_TOKEN = SWITCH_TOKEN + 1
START = 0
NAMES = "ABCDEFGHIJKLMNOPQRSTUVW"
MOST_PROBLEMS = 4096
_BETWEEN = re.compile(r"->|[,→]")

# Edges from one vertex to another, those of lower vertices first.
Edges = tuple[tuple[int, int], ...]
# The names of the vertices after the start.
Walk = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class GraphSearch(TextTask):
    """Hypotheses are paths from start to goal; one is valid if the prompt's graph has all of its edges.

    A prompt is a directed graph in layers: the start A, `depth` - 1 layers of `branches` vertices each, in the order
    of the alphabet, and the goal. The start has an edge to each vertex of the first layer, a branch of the search;
    every other pair of vertices of neighbouring layers is an edge with probability `edge_probability`. A hypothesis
    names one vertex of each layer after the start, so all have `depth` vertices, and there are
    branches^(depth - 1). Several may be right. With three branches and depth 4 the goal is K, and "C E I K" is one.

    An answer is a sequence of thoughts with a switch token before each but the first: "B F alternatively C E I K". A
    thought names the vertices of a walk after the start. The last one is the answer; those before it have no part in
    the outcome. A last thought that is no hypothesis, such as "B F", has an outcome outside the hypothesis space.

    A thought is *correct* if it is a walk from the start along edges of the graph, of at least one edge, and its last
    vertex is the goal or leads to it: the whole or the beginning of a right answer. arXiv 2501.18585 (TIP) has models
    say whether a thought leads to the right answer; that this is what they mean is our reading. A walk that was
    abandoned where only a dead end was left is not correct, although its beginning was.

    Of each graph at least one branch before the last leads to the goal. The first one, B, leads nowhere with
    probability `dead_first`: searches that begin with it then need a switch.

    Compact prompts have one token for each edge. In text, thoughts stand between answer tags, with blanks, commas or
    arrows between the vertices. `SWITCH_TOKEN` is the only planning token.

    Attributes:
      branches: 3 to 6.
      depth: number of edges of a path, 2 to 6; in all, no more than 23 vertices.
      edge_probability: above 0 and below 1.
      dead_first: 0 to 1.
      problems: number of prompts, at most 4096; no two have the same graph.
      seed: of the graphs.

    Raises:
      ValueError: a field is out of range. Also, when the problems are first used: too few such graphs were found.
    """

    branches: int = between(3, 6, 3)
    depth: int = between(2, 6, 4)
    edge_probability: float = open_probability(0.4)
    dead_first: float = probability(0.1)
    problems: int = between(1, MOST_PROBLEMS, 64)
    seed: int = between(0, 2**32 - 1, 0)

    planning_symbols: ClassVar[tuple[str, ...]] = (SWITCH,)
    reads_quickly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.goal >= len(NAMES):
            raise ValueError(
                f"branches={self.branches} and depth={self.depth} make {self.goal + 1} vertices, more than the "
                f"{len(NAMES)} that have names: choose fewer"
            )

    @property
    def goal(self) -> int:
        """The number of the goal, the last vertex."""
        return 1 + self.branches * (self.depth - 1)

    @functools.cached_property
    def walks(self) -> np.ndarray:
        """`[K, depth]`, the vertices of each hypothesis."""
        layers = np.indices((self.branches,) * (self.depth - 1)).reshape(self.depth - 1, -1).T
        first = 1 + self.branches * np.arange(self.depth - 1)
        return np.pad(first + layers, ((0, 0), (0, 1)), constant_values=self.goal)

    @functools.cached_property
    def answers(self) -> tuple[Walk, ...]:
        return tuple(tuple(_named(walk)) for walk in self.walks)

    @functools.cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """`[K, depth]` each, where each edge of a hypothesis begins and ends."""
        return np.pad(self.walks, ((0, 0), (1, 0)), constant_values=START)[:, :-1], self.walks

    @functools.cached_property
    def _pairs(self) -> np.ndarray:
        """`[E, 2]`, all edges that a graph may have, those of the start first."""
        return np.unique(np.stack(self._steps, axis=-1).reshape(-1, 2), axis=0)

    @functools.cached_property
    def problem_table(self) -> dict[Edges, np.ndarray]:
        """The edges of each prompt's graph -> `[K]` bool, which paths it has."""
        choose = "fewer problems, larger sizes, or an edge_probability and a dead_first further from 0 and 1"
        return drawn_problems(self._draws(), self.problems, "graphs with such branches", choose)

    def _draws(self) -> Iterator[tuple[Edges, np.ndarray] | None]:
        rng, known = random.Random(self.seed), set()
        (tails, heads), certain = self._pairs.T, (self._pairs[:, 0] == START).tolist()
        wanted = rng.random() < self.dead_first
        while True:
            graph = np.zeros((self.goal + 1, self.goal + 1), bool)
            graph[tails, heads] = [of_start or rng.random() < self.edge_probability for of_start in certain]
            leads = _leads_to_last(graph)[1 : self.branches + 1]
            if not leads[:-1].any() or leads[0] == wanted or graph.tobytes() in known:
                yield None
                continue
            known.add(graph.tobytes())
            yield tuple(map(tuple, np.argwhere(graph).tolist())), graph[self._steps].all(axis=-1)
            wanted = rng.random() < self.dead_first

    @functools.cached_property
    def graphs(self) -> np.ndarray:
        """`[num_prompts, V, V]` bool, whether there is an edge from one vertex to another."""
        graphs = np.zeros((self.num_prompts, self.goal + 1, self.goal + 1), bool)
        for graph, edges in zip(graphs, self.asked, strict=True):
            graph[tuple(np.transpose(edges))] = True
        return graphs

    @functools.cached_property
    def leads(self) -> np.ndarray:
        """`[num_prompts, V]` bool, whether a vertex is the goal or leads to it."""
        return np.stack([_leads_to_last(graph) for graph in self.graphs])

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        return (SWITCH, *NAMES[: self.goal + 1], *(">".join(_named(pair)) for pair in self._pairs))

    @property
    def longest_answer(self) -> int:
        """A whole thought for each branch, and the switches."""
        return self.branches * (self.depth + 1) - 1

    def observation_symbols(self, problem: Edges) -> list[str]:
        return [">".join(_named(edge)) for edge in problem]

    def spell(self, answer: Walk, rng: np.random.Generator | None) -> list[str]:
        """The symbols; with `rng`, behind fewer thoughts than there are branches, beginnings of random hypotheses."""
        number = 0 if rng is None else int(rng.integers(self.branches))
        before = [self.answers[rng.integers(self.num_hypotheses)][: rng.integers(1, self.depth)] for _ in range(number)]
        return [symbol for walk in (*before, answer) for symbol in (SWITCH, *walk)][1:]

    def answer_words(self, answer: Walk, rng: np.random.Generator | None) -> str:
        return f"<answer> {' '.join(self.spell(answer, rng))} </answer>"

    def read_symbols(self, symbols: Sequence[str]) -> Walk | None:
        last = " ".join(symbols).rpartition(SWITCH)[2].split()
        return tuple(last) if last and set(last) <= set(NAMES[: self.goal + 1]) else None

    def read_text(self, text: str) -> Walk | None:
        return self.read_symbols(
            [SWITCH if word.lower() == SWITCH else word for word in _BETWEEN.sub(" ", text).split()]
        )

    def prompt_words(self, problem: Edges, earlier: str) -> str:
        edges = ", ".join("->".join(_named(edge)) for edge in problem)
        return f"""\
Find a way from A to {NAMES[self.goal]} in this directed graph:
{edges}
{earlier}
Write the vertices after A between these tags. To give up a way and begin anew from A, write "{SWITCH}"; the last way \
counts. For instance, if the goal were Z:
<answer> X {SWITCH} Y Z </answer>"""

    @checked
    def thoughts(self, trajectories: Trajectories) -> "Thoughts":
        """The thoughts of sampled answers, for `experiments.thought_switching.underthinking`."""
        index = np.asarray(trajectories.prompts.index)
        found = of_each_answer(self._measured, index, written_answers(trajectories))
        return Thoughts(*np.moveaxis(np.array(found, np.int32), -1, 0))

    def _measured(self, prompt: int, tokens: np.ndarray) -> tuple[int, int, int]:
        answer = tokens.tolist()
        answer = answer[: answer.index(STOP)] if STOP in answer else answer
        thought, first = [], 0
        for place, token in enumerate([*answer, SWITCH_TOKEN]):
            if token != SWITCH_TOKEN:
                thought.append(token - START_TOKEN)
                continue
            if not first and self._is_correct(prompt, thought):
                first = place
            thought = []
        return first, len(answer), answer.count(SWITCH_TOKEN)

    def _is_correct(self, prompt: int, walk: Sequence[int]) -> bool:
        graph = self.graphs[prompt]
        if not walk or not all(0 <= vertex <= self.goal for vertex in walk):
            return False
        return bool(graph[[START, *walk[:-1]], walk].all() and self.leads[prompt, walk[-1]])


@dataclasses.dataclass(frozen=True)
class Thoughts:
    """Counts of tokens and switches in sampled answers, each `[P, G]` int32, without the stop token.

    Attributes:
      first_correct: number of tokens up to and including the first correct thought, switches included; 0 if none is.
      tokens: number of tokens, switches included.
      switches: number of switch tokens.
    """

    first_correct: np.ndarray
    tokens: np.ndarray
    switches: np.ndarray


def _named(vertices: Iterable[int]) -> list[str]:
    return [NAMES[vertex] for vertex in vertices]


def _leads_to_last(graph: np.ndarray) -> np.ndarray:
    """`[V]` bool, whether a vertex is the last, or leads to it; edges go from lower to higher numbers."""
    leads = np.zeros(len(graph), bool)
    leads[-1] = True
    for vertex in reversed(range(len(graph) - 1)):
        leads[vertex] = (graph[vertex] & leads).any()
    return leads
