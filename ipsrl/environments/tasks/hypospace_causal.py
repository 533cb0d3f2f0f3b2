"""HypoSpace, causal graphs: which directed acyclic graphs explain the effects of single-node perturbations?

Perturbing a node changes exactly its descendants. An observation names one perturbed node and every other node that
changed; usually several graphs explain the same observations. Chen et al., arXiv 2510.15614.
"""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Polynomial

from ipsrl.checking.fields import between
from ipsrl.environments.listed_task import check_space
from ipsrl.environments.reading.answer_text import BULLET, SIGN, WITHDRAWN, marker, without_remark
from ipsrl.environments.text import TextTask

NO_EDGES = "No edges"
LARGEST_COMPLETE = 4  # up to this many nodes, every observation set is a prompt
DRAWN_SETS = 100  # of each size, for more nodes
# Chains of arrows, or pairs in brackets, with commas, semicolons or "and" between them.
_NODE = r"(?!AND\b)\w+"
_CHAIN = rf"{_NODE}(?: *[-=]+> *{_NODE})+"
_PART = re.compile(rf"{_CHAIN}|\( *{_CHAIN} *\)|\( *{_NODE} *, *{_NODE} *\)|\[ *{_NODE} *, *{_NODE} *\]")
_EDGES = rf"(?:{_PART.pattern})(?: *(?:(?:[,;] *)?(?:\bAND\b|&)|[,;]) *(?:{_PART.pattern}))*"
_NONE = r"NO +EDGES\b"
_MANY = rf"[ ,]*(?:{_EDGES}|{_NONE})?[ ,]*"
_WHOLE = re.compile(rf"\[{_MANY}\]|\{{{_MANY}\}}|\({_MANY}\)|{_EDGES}|{_NONE}|∅")
_NAME = re.compile(r"^[A-Za-z]+ *[=:](?![>=]) *")

# Names of edges in the order of the alphabet, each once.
Edges = tuple[str, ...]
# (perturbed node, bit mask of the nodes that changed), by node.
ObservationSet = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class HypospaceCausal(TextTask):
    """Hypotheses are directed acyclic graphs on nodes A, B, C, ...; one is valid if it predicts every observation.

    A prompt is an observation set: the result of perturbing k different nodes. For up to 4 nodes every set that some
    graph explains is a prompt; from 5 nodes, at most 100 of each k are sampled: an edge count with probability
    proportional to 1 / (1 + times used), a graph with that many edges, and k nodes, each uniformly.

    Compact answers hold one token for each edge, in any order (repeated edges count once), or "No edges"; compact
    prompts hold "Perturb(A)" and "B:1" for each changed node. In text: "Graph: A->B, B->C" or "Graph: No edges". Graphs
    with cycles or more than `edge_limit` edges have no outcome, so every outcome is in the hypothesis space.

    Attributes:
      nodes: number of nodes, 2 to 8.
      max_edges: maximum number of edges. By default n (n - 1) / 2, all acyclic graphs, up to 5 nodes; 10 above.
      perturbations: k, or None for all of 1 .. nodes.
      seed: of the sampled observation sets, from 5 nodes.

    Raises:
      ValueError: a field is out of range, or there are more than 100,000 graphs (6 nodes need max_edges of at most 4).
    """

    nodes: int = between(2, 8, 3)
    max_edges: int | None = between(1, lambda task: math.comb(task.nodes, 2), None)
    perturbations: int | None = between(1, lambda task: task.nodes, None)
    seed: int = between(0, 2**32 - 1, 0)

    lists_all = True
    answer_marker = marker("graph", "edges", "dag")
    # Lines of nodes and signs, or that begin with an edge: whatever follows it belongs to the answer.
    answer_line = re.compile(
        rf"(?:and +)?(?:{BULLET.pattern[1:]})?[\[{{(]? *(?:{_PART.pattern}|{_NONE}).*|(?:\b[a-z]\b|{SIGN})+",
        re.IGNORECASE,
    )
    answer_withdrawn = re.compile(
        rf"{WITHDRAWN.pattern}|(?:{BULLET.pattern[1:]})?(?:(?:and|not|also|but)[ ,:]+)*[\[{{(]? *(?:{_PART.pattern})",
        re.IGNORECASE,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        graphs = count_acyclic_graphs(self.nodes, self.edge_limit)
        given = f"{self.nodes} nodes with at most {self.edge_limit} edges give {graphs} graphs"
        check_space(graphs, given, "choose a smaller max_edges")

    @property
    def edge_limit(self) -> int:
        """Maximum number of edges of a graph."""
        if self.max_edges is not None:
            return self.max_edges
        return math.comb(self.nodes, 2) if self.nodes <= 5 else min(10, 2 * self.nodes)

    @functools.cached_property
    def node_names(self) -> tuple[str, ...]:
        return tuple("ABCDEFGH"[: self.nodes])

    @functools.cached_property
    def edge_names(self) -> tuple[str, ...]:
        return tuple(f"{a}->{b}" for a, b in itertools.permutations(self.node_names, 2))

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        perturbed = tuple(f"Perturb({name})" for name in self.node_names)
        changed = tuple(f"{name}:1" for name in self.node_names)
        return (*self.edge_names, NO_EDGES, *perturbed, *changed)

    @property
    def planning_symbols(self) -> tuple[str, ...]:
        """All symbols of an answer: a graph is only structure. The stop token is not a planning token."""
        return (*self.edge_names, NO_EDGES)

    @functools.cached_property
    def graphs(self) -> tuple[np.ndarray, np.ndarray]:
        """Edges `[K, n (n - 1)]` bool, in the order of `edge_names`, and descendants `[K, n]`, a bit mask by node."""
        edges, reach = acyclic_graphs(self.nodes, self.edge_limit)
        return edges, reach @ (1 << np.arange(self.nodes))

    @functools.cached_property
    def answers(self) -> tuple[Edges, ...]:
        return tuple(tuple(itertools.compress(self.edge_names, row)) for row in self.graphs[0])

    def name(self, answer: Edges) -> str:
        return ", ".join(answer) or NO_EDGES

    @functools.cached_property
    def problem_table(self) -> dict[ObservationSet, np.ndarray]:
        """The observation set of each prompt -> `[K]` bool, which graphs predict it."""
        descendants, table = self.graphs[1], {}
        for observations in self._observation_sets():
            nodes, effects = map(list, zip(*observations, strict=True))
            table[observations] = (descendants[:, nodes] == effects).all(axis=1)
        return table

    def _observation_sets(self) -> list[ObservationSet]:
        sizes = range(1, self.nodes + 1) if self.perturbations is None else (self.perturbations,)
        if self.nodes > LARGEST_COMPLETE:
            rng = np.random.default_rng(self.seed)
            return [observations for size in sizes for observations in self._drawn_sets(size, rng)]
        return [
            tuple(zip(nodes, effects, strict=True))
            for size in sizes
            for nodes in itertools.combinations(range(self.nodes), size)
            for effects in np.unique(self.graphs[1][:, nodes], axis=0).tolist()
        ]

    def _drawn_sets(self, size: int, rng: np.random.Generator) -> list[ObservationSet]:
        edges, descendants = self.graphs
        edge_counts = edges.sum(1)
        with_edges = [np.flatnonzero(edge_counts == count) for count in range(self.edge_limit + 1)]
        used = np.zeros(len(with_edges))
        drawn: dict[ObservationSet, None] = {}
        # Small sizes may have fewer different sets than requested: stop after ten times as many samples.
        for _ in range(10 * DRAWN_SETS):
            weights = 1.0 / (1.0 + used)
            count = rng.choice(len(used), p=weights / weights.sum())
            graph = rng.choice(with_edges[count])
            nodes = sorted(rng.choice(self.nodes, size, replace=False).tolist())
            observations = tuple((node, int(descendants[graph, node])) for node in nodes)
            if observations not in drawn:
                drawn[observations] = None
                used[count] += 1
            if len(drawn) == DRAWN_SETS:
                break
        return list(drawn)

    def observation_symbols(self, problem: ObservationSet) -> list[str]:
        symbols = []
        for node, effect in problem:
            symbols.append(f"Perturb({self.node_names[node]})")
            symbols += [f"{name}:1" for other, name in enumerate(self.node_names) if effect >> other & 1]
        return symbols

    def spell(self, answer: Edges, rng: np.random.Generator | None) -> list[str]:
        edges = list(answer) or [NO_EDGES]
        return edges if rng is None else [edges[i] for i in rng.permutation(len(edges))]

    def read_symbols(self, symbols: Sequence[str]) -> Edges | None:
        if list(symbols) == [NO_EDGES]:
            return ()
        return tuple(sorted({*symbols})) if symbols and {*symbols} <= {*self.edge_names} else None

    def read_text(self, text: str) -> Edges | None:
        """Edges on one or several lines: A->B, chains A->B->C, pairs (A, B), with any arrow, in any case."""
        # A line may end with the comma that divides it from the next.
        lines = [without_remark(BULLET.sub("", line, count=1)) for line in text.split("\n")]
        whole = _NAME.sub("", ", ".join(filter(None, lines)), count=1).upper()
        if not _WHOLE.fullmatch(whole):
            return None
        chains = [re.findall(r"\w+", part) for part in _PART.findall(whole)]
        # Also unknown nodes, self-loops, cycles and too many edges, none of which are listed.
        return tuple(sorted({f"{a}->{b}" for chain in chains for a, b in itertools.pairwise(chain)}))

    def answer_words(self, answer: Edges, rng: np.random.Generator | None) -> str:
        return f"Graph: {', '.join(self.spell(answer, rng))}"

    def prompt_words(self, problem: ObservationSet, earlier: str) -> str:
        lines = []
        for node, effect in problem:
            effects = " ".join(f"{name}:{effect >> other & 1}" for other, name in enumerate(self.node_names))
            lines.append(f"Perturb({self.node_names[node]}) -> {effects}")
        observations = "\n".join(lines)
        return f"""\
An unknown directed acyclic graph connects the nodes {", ".join(self.node_names)}. It has no more than \
{self.edge_limit} edges.

Experiments disturb a single node and record each node as 0 or 1:
1. The disturbed node itself is recorded as 0.
2. Every node that a directed path from the disturbed node leads to is recorded as 1.
3. All remaining nodes are recorded as 0.

Records:
{observations}
{earlier}
Give one graph that predicts all of these records exactly. Among the graphs that do, look for one whose set of edges \
was not given before.

Answer with a single line of this form and nothing after it:
Graph: A->B, B->C
For a graph without edges write:
Graph: No edges"""


def count_acyclic_graphs(nodes: int, max_edges: int) -> int:
    """Number of labelled acyclic graphs with at most `max_edges` edges.

    With A_n(y) = sum over graphs of y^edges: A_n = sum_{k=1..n} (-1)^(k+1) C(n, k) (1 + y)^(k (n - k)) A_(n-k), by
    inclusion and exclusion over k nodes without incoming edges.
    """
    # In floats, which are exact up to the 8 nodes of a task: their numbers are far below 2^53.
    polynomials = [Polynomial([1])]
    for n in range(1, nodes + 1):
        terms = (
            (-1) ** (k + 1) * math.comb(n, k) * Polynomial([1, 1]) ** (k * (n - k)) * polynomials[n - k]
            for k in range(1, n + 1)
        )
        polynomials.append(sum(terms))
    return int(polynomials[nodes].coef[: max_edges + 1].sum())


def acyclic_graphs(nodes: int, max_edges: int) -> tuple[np.ndarray, np.ndarray]:
    """All K acyclic graphs with at most `max_edges` edges, those with few edges first.

    Returns:
      `[K, n (n - 1)]` bool, the edges a -> b in the order of `itertools.permutations`, and `[K, n, n]` bool, True if a
        directed path leads from the first node to the second.
    """
    column = {pair: i for i, pair in enumerate(itertools.permutations(range(nodes), 2))}
    edges, reach = np.zeros((1, len(column)), bool), np.zeros((1, nodes, nodes), bool)
    # Each pair of nodes gets no edge or one of two; partial graphs that are acyclic stay in the list.
    for a, b in itertools.combinations(range(nodes), 2):
        extended = [(edges, reach)]
        for tail, head in ((a, b), (b, a)):
            allowed = ~reach[:, head, tail] & (edges.sum(1) < max_edges)
            longer, paths = edges[allowed], reach[allowed]
            longer[:, column[tail, head]] = True
            ends_here, starts_here = np.arange(nodes) == tail, np.arange(nodes) == head
            through = (paths[:, :, tail] | ends_here)[:, :, None] & (paths[:, head, :] | starts_here)[:, None, :]
            extended.append((longer, paths | through))
        edges, reach = (np.concatenate(parts) for parts in zip(*extended, strict=True))
    order = np.lexsort((*(~edges.T[::-1]), edges.sum(1)))
    return edges[order], reach[order]
