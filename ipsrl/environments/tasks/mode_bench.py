"""Two domains of ModeBench at five levels, with disjoint training and held-out problems.

ModeBench (arXiv 2610.11064, github.com/liv-daliberti/modeBench) has five domains of problems with many right answers
each, 384 to train on and 128 to evaluate on at every level. Graph colouring and factors need no outside tool.
"""

from typing import Any, Literal

from ipsrl.checking.arguments import checked
from ipsrl.environments.tasks.factors import Factors
from ipsrl.environments.tasks.graph_coloring import GraphColoring

TRAINING, HELD_OUT = 384, 128
LEVELS: dict[str, dict[int, dict[str, Any]]] = {
    "graph_coloring": {
        1: {"vertices": 6, "hidden": 3, "edge_probability": 0.4},
        2: {"vertices": 6, "hidden": 4, "edge_probability": 0.4},
        3: {"vertices": 7, "hidden": 5, "edge_probability": 0.35},
        4: {"vertices": 8, "hidden": 6, "edge_probability": 0.3},
        5: {"vertices": 9, "hidden": 7, "edge_probability": 0.3},
    },
    "factors": {
        1: {"numbers": 4, "largest": 96},
        2: {"numbers": 4, "largest": 192},
        3: {"numbers": 4, "smallest": 60, "largest": 254, "most_solutions": 256},
        4: {"numbers": 4, "smallest": 48, "largest": 996, "most_solutions": 256},
        5: {"numbers": 6, "smallest": 25, "largest": 998, "least_solutions": 64, "most_solutions": 256},
    },
}
"""Domain -> level -> fields of its environment."""


@checked
def mode_bench(
    domain: Literal["graph_coloring", "factors"] = "graph_coloring",
    level: int = 1,
    split: Literal["training", "held_out"] = "training",
) -> GraphColoring | Factors:
    """The environment of a domain at a level.

    Levels are ours, by size. ModeBench chooses the problems of its levels 3 to 5 so that language models of 3, 7 and 14
    billion parameters find them as hard as one of half a billion finds level 1, which has no meaning for other models.
    Of its sizes, as its repository lists them (provenance/level-construction.json), factors has all: its levels 4 and 5
    are the other way round here. Graphs have 4 to 7 vertices there, of which 3 or 4 are hidden, mixed within a level;
    here one size each, and levels 3 to 5 are larger. Upper limits on solutions, edge probabilities and draws are ours.

    Args:
      domain: `graph_coloring` or `factors`.
      level: 1 to 5.
      split: `training`, 384 problems, or `held_out`, 128 others.

    Raises:
      ValueError: there is no such domain, level or split.
    """
    if level not in LEVELS[domain]:
        raise ValueError(f"level is {level}, it must lie between 1 and {len(LEVELS[domain])}")
    problems = {"problems": TRAINING} if split == "training" else {"problems": HELD_OUT, "skip": TRAINING}
    environment = GraphColoring if domain == "graph_coloring" else Factors
    return environment(**LEVELS[domain][level], **problems)
