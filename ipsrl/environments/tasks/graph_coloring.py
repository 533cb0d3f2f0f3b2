"""Graph colouring: give each vertex a color, so that no edge joins two vertices of the same color.

The task `graph_color` of reasoning-gym (github.com/open-thought/reasoning-gym, 0.1.25), with its problems and words.
"""

import dataclasses
import functools
import itertools
import json
import random
import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import between, open_probability
from ipsrl.environments.listed_task import LARGEST_SPACE, check_space
from ipsrl.environments.tasks.drawing import drawn_problems
from ipsrl.environments.text import TextTask

UNCOLORED = "?"
# For one seed: where graphs are too dense for their colors, reasoning-gym would look for one forever.
ATTEMPTS = 10_000
_PAIR = r'"?(\d{1,2})"? *: *"?(\d{1,2})"?'
_WHOLE = re.compile(rf"\{{ *{_PAIR}(?: *, *{_PAIR})* *,? *\}}")

Edges = tuple[tuple[int, int], ...]
Coloring = tuple[int, ...]
# The colors of all vertices, with 0 for those that are to be colored.
Shown = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class GraphColoring(TextTask):
    """Hypotheses are all assignments of colors to vertices; one is valid if it colors the prompt's graph properly.

    A prompt is a graph. Graph i is that of reasoning-gym's `graph_color` with the same sizes and the seed `seed` + i:
    each pair of vertices is an edge with probability `edge_probability`, and colors chosen greedily, vertex by vertex,
    suffice. Seeds of graphs with less than `least_solutions` solutions, or that a smaller seed has, are left out.

    With `hidden`, as in ModeBench (arXiv 2610.11064), a prompt is a graph of which all vertices but that many have
    colors already, those of one of its solutions; both are drawn uniformly, and a solution keeps the colors.

    With `renaming`, assignments that differ only in the names of their colors are the same outcome; the canonical one
    uses the colors in the order 1, 2, ....

    Compact prompts hold one token for each edge, and with `hidden` behind them the color of each vertex, or "?";
    compact answers hold the colors of the vertices 0, 1, .... In text:
    '<answer> {"0": 1, "1": 2} </answer>', with any blanks, with or without quotation marks. A map that leaves out a
    vertex, names one twice, or has other vertices or colors, has no outcome, so every outcome is in the hypothesis
    space. (reasoning-gym's own verifier lets further vertices, 1.0 and true pass.)

    Attributes:
      vertices: number of vertices, 3 to 12.
      colors: number of colors, 2 to 6.
      edge_probability: above 0 and below 1.
      problems: number of prompts.
      least_solutions: of every prompt, as outcomes, 1 or more.
      renaming: whether the names of colors do not matter.
      hidden: number of vertices without a color, at most `vertices`; 0 for all of them, without a word on colors.
      skip: how many problems are passed over first: with those of a training set, the others are held out.
      seed: of the first graph.

    Raises:
      ValueError: a field is out of range, or there are more than 100,000 assignments. Also, when the problems are first
        used: too few graphs have that many solutions, or none of many can be colored greedily.
    """

    vertices: int = between(3, 12, 6)
    colors: int = between(2, 6, 3)
    edge_probability: float = open_probability(0.5)
    problems: int = between(1, LARGEST_SPACE, 64)
    least_solutions: int = between(1, LARGEST_SPACE, 2)
    renaming: bool = False
    hidden: int = between(0, lambda task: task.vertices, 0)
    skip: int = between(0, LARGEST_SPACE, 0)
    seed: int = between(0, 2**32 - 1, 0)

    lists_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden and self.renaming:
            raise ValueError("renaming needs hidden=0: where some colors are shown, the names of colors matter")
        assignments = self.colors**self.vertices
        check_space(assignments, f"{self.vertices} vertices in {self.colors} colors have {assignments} assignments")

    @functools.cached_property
    def colorings(self) -> np.ndarray:
        """Colors `[K, vertices]` of `answers`, all assignments, from 1; with `renaming` the canonical ones alone."""
        every = np.array(list(itertools.product(range(1, self.colors + 1), repeat=self.vertices)))
        if not self.renaming:
            return every
        earlier = np.pad(np.maximum.accumulate(every, axis=1), ((0, 0), (1, 0)))[:, :-1]
        return every[(every <= earlier + 1).all(axis=1)]

    @functools.cached_property
    def answers(self) -> tuple[Coloring, ...]:
        return tuple(map(tuple, self.colorings.tolist()))

    @functools.cached_property
    def problem_table(self) -> dict[tuple[Edges, Shown], np.ndarray]:
        """The edges of each prompt's graph and the colors shown -> `[K]` bool, which assignments solve it."""
        what = f"graphs with {self.vertices} vertices and {self.least_solutions} solutions or more"
        choose = "fewer problems, a smaller least_solutions or more vertices"
        draws = map(self._drawn, itertools.count(self.seed))
        return drawn_problems(draws, self.problems, what, choose, self.skip)

    def _drawn(self, seed: int) -> tuple[tuple[Edges, Shown], np.ndarray] | None:
        edges = graph_of_seed(seed, self.vertices, self.colors, self.edge_probability)
        tails, heads = np.array(edges, int).reshape(-1, 2).T
        solves = (self.colorings[:, tails] != self.colorings[:, heads]).all(axis=1)
        shown = self._shown_of_seed(seed, solves)
        solves &= ((self.colorings == shown) | (np.array(shown) == 0)).all(axis=1)
        return ((edges, shown), solves) if solves.sum() >= self.least_solutions else None

    def _shown_of_seed(self, seed: int, solves: np.ndarray) -> Shown:
        if not self.hidden:
            return (0,) * self.vertices
        # The seed itself has drawn the graph.
        rng = random.Random(f"shown {seed}")
        colors = self.colorings[rng.choice(np.flatnonzero(solves).tolist())].tolist()
        hidden = rng.sample(range(self.vertices), self.hidden)
        return tuple(0 if vertex in hidden else color for vertex, color in enumerate(colors))

    @property
    def symbols(self) -> tuple[str, ...]:
        edges = itertools.combinations(range(self.vertices), 2)
        uncolored = (UNCOLORED,) if self.hidden else ()
        return (*self.planning_symbols, *(f"{tail}-{head}" for tail, head in edges), *uncolored)

    @property
    def planning_symbols(self) -> tuple[str, ...]:
        """The colors: an assignment is only structure."""
        return tuple(map(str, range(1, self.colors + 1)))

    def observation_symbols(self, problem: tuple[Edges, Shown]) -> list[str]:
        edges, shown = problem
        colors = [str(color or UNCOLORED) for color in shown] if self.hidden else []
        return [*(f"{tail}-{head}" for tail, head in edges), *colors]

    def spell(self, answer: Coloring, rng: np.random.Generator | None) -> list[str]:
        return [str(color) for color in self._renamed(answer, rng)]

    def _renamed(self, answer: Coloring, rng: np.random.Generator | None) -> list[int]:
        if rng is None or not self.renaming:
            return list(answer)
        return rng.permutation(np.arange(1, self.colors + 1))[np.array(answer) - 1].tolist()

    def read_symbols(self, symbols: Sequence[str]) -> Coloring | None:
        return tuple(map(int, symbols)) if all(symbol.isdecimal() for symbol in symbols) else None

    def read_text(self, text: str) -> Coloring | None:
        """The colors of the vertices 0, 1, ... in a map of JSON."""
        whole = " ".join(text.split())
        if not _WHOLE.fullmatch(whole):
            return None
        pairs = sorted((int(vertex), int(color)) for vertex, color in re.findall(_PAIR, whole))
        is_complete = [vertex for vertex, _ in pairs] == list(range(self.vertices))
        return tuple(color for _, color in pairs) if is_complete else None

    def outcome(self, answer: Coloring) -> int:
        if self.renaming and set(answer) <= set(range(1, self.colors + 1)):
            names = {color: name for name, color in enumerate(dict.fromkeys(answer), 1)}
            answer = tuple(names[color] for color in answer)
        return super().outcome(answer)

    def answer_words(self, answer: Coloring, rng: np.random.Generator | None) -> str:
        colors = {str(vertex): color for vertex, color in enumerate(self._renamed(answer, rng))}
        return f"<answer> {json.dumps(colors)} </answer>"

    def prompt_words(self, problem: tuple[Edges, Shown], earlier: str) -> str:
        edges, colors = problem
        shown = {str(vertex): color for vertex, color in enumerate(colors) if color}
        keep = f"\nThese vertices have their colors already, which must stay: {json.dumps(shown)}" if shown else ""
        return f"""\
Please provide a coloring for this graph such that every vertex is not connected to a vertex of the same color. \
The graph has these properties:

Vertices: {list(range(self.vertices))}
Edges: {list(edges)}
Possible colors: {list(range(1, self.colors + 1))}

Return your solution as a JSON map of vertices to colors. (For example: {{"0": 1, "1": 2, "2": 3}}.){keep}
{earlier}
You may think first. Then write the map between these tags, for instance:
<answer> {{"0": 1, "1": 2, "2": 3}} </answer>"""


def graph_of_seed(seed: int, vertices: int, colors: int, edge_probability: float) -> Edges:
    """The graph that reasoning-gym 0.1.25 makes of a seed: problem i of its data set has the seed `seed` + i.

    Raises:
      ValueError: of `ATTEMPTS` graphs none can be colored greedily.
    """
    rng = random.Random(seed)
    for _ in range(ATTEMPTS):
        # Theirs draws the number of vertices, also where there is but one to draw.
        rng.randint(vertices, vertices)
        pairs = itertools.combinations(range(vertices), 2)
        edges = tuple(pair for pair in pairs if rng.random() < edge_probability)
        if _greedily_colored(edges, vertices, colors):
            return edges
    raise ValueError(
        f"none of {ATTEMPTS} graphs with {vertices} vertices and edge_probability {edge_probability} was colored by "
        f"{colors} colors, chosen greedily: choose more colors, fewer vertices or a smaller edge_probability"
    )


def _greedily_colored(edges: Edges, vertices: int, colors: int) -> bool:
    """Whether the smallest color that no neighbour has, vertex by vertex, never exceeds the number of colors."""
    given: list[int] = []
    for vertex in range(vertices):
        around = {given[tail] for tail, head in edges if head == vertex}
        given.append(next(color for color in itertools.count() if color not in around))
    return max(given) < colors
