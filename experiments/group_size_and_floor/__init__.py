"""Group size and probability floor of IPS-GRPO: when does the floor act, and what does it cost?

Claim     The floor acts only above 1/G, so that cells of one row with floor <= 1/G are the same run.
Paper     Table 4 of arXiv 2601.21669 (causal task, recovery in %, one number a cell): between 17.63 (G = 4) and 43.91
          (G = 16, floor 0.2), not monotone in G; equal entries exactly where the floor is at most 1/G.
Arms      IPS-GRPO with floors of 0.01, 0.1 and 0.2 in groups of 4, 8, 16, 32 and 64, with 640 answers an update in all
          cells. One seed each: 150 updates by Adam at 3e-4 of a transformer of two layers, from one prior, of whose
          training answers six in ten were admissible. Cells with a floor of at most 1/G are placebos for each other.
Command   python -m experiments.group_size_and_floor
Time      demo ten minutes on two busy CPU cores, smoke under one; paper, not run, an estimated two hours.
Expected  Recovery (one seed, +- 0.05): 0.47 in the smallest groups whatever the floor, 0.53 in groups of 32 with the
          smallest floor, 0.45 in the largest with the largest: a floor that acts costs recovery here. All cells of a
          row with floor <= 1/G are exactly equal.
Doubt     The claim is one of the algorithm: a frequency among G answers is at least 1/G, and one pair of such cells
          that differed would refute it. That a floor costs recovery here is no claim: one seed, one task, one rate, and
          a model far smaller than the paper's, whose numbers, one a cell, go up and down.
Smoke     python -m experiments.group_size_and_floor --preset=smoke

Every cell samples the same number of answers in each update: `answers_per_step` / G prompts.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from ipsrl import study
from ipsrl.checking import specifications
from ipsrl.checking.fields import accepted_by, at_least, non_negative, positive, probability
from ipsrl.environments import catalog as environments
from ipsrl.figures.layers import HeatMap
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study import text_tasks


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`objectives` is the single objective that gets a floor; other settings as in `ipsrl.study.text_tasks`.

    The prompts of an update are shared by up to `micro_batches` micro-batches.
    """

    task: str = accepted_by(environments.check, "hypospace_causal(nodes=4, perturbations=2)")
    objectives: str = study.objectives("ips_grpo")
    group_sizes: tuple[int, ...] = study.rising((4, 8, 16, 32, 64), least=1, most=2**20)
    floors: tuple[float, ...] = non_negative((0.01, 0.1, 0.2))
    seeds: tuple[int, ...] = study.seeds((0,))
    steps: int = positive(150)
    answers_per_step: int = positive(640)
    micro_batches: int = at_least(1, 5)
    learning_rate: float = positive(3e-4)
    hidden_size: int = positive(64)
    num_layers: int = positive(2)
    prior_share: float = probability(0.6)
    prior_steps: int = positive(1000)
    answers: int = positive(64)

    def __post_init__(self):
        super().__post_init__()
        if wrong := [size for size in self.group_sizes if self.answers_per_step % size]:
            raise ValueError(
                f"--answers_per_step is {self.answers_per_step}, it must be a multiple of the group size {wrong[0]}"
            )

    def row(self, group_size: int) -> text_tasks.TextTaskSettings:
        """All floors and seeds at one group size, as runs of `ipsrl.study.text_tasks`."""
        prompts = self.answers_per_step // group_size
        floored = functools.partial(specifications.with_argument, self.objectives, "floor")
        of_row = {
            "objectives": tuple(map(floored, self.floors)),
            "prompts_per_step": prompts,
            "group_size": group_size,
            "micro_batches": math.gcd(prompts, self.micro_batches),
            "evaluate_every": self.steps,
            "checkpoint_every": self.steps,
        }
        every_row = study.shared(self, text_tasks.TextTaskSettings)
        return text_tasks.TextTaskSettings(**every_row | of_row)


PRESETS = {
    "smoke": Settings(
        "hypospace_causal(nodes=3, perturbations=1)",
        group_sizes=(4, 8),
        floors=(0.1, 0.2),
        steps=2,
        answers_per_step=32,
        hidden_size=16,
        num_layers=1,
        prior_steps=20,
        answers=16,
    ),
    "demo": Settings(),
    "paper": Settings(seeds=(0, 1, 2, 3, 4), steps=300),
}
MANY_HOSTS = TRACKERS = True


def curves(settings: Settings) -> study.Curves:
    for size in settings.group_sizes:
        row = text_tasks.training_grid(settings.task, settings.row(size))
        for floor, text in zip(settings.floors, row.objectives, strict=True):
            cell = dataclasses.replace(row, objectives=(text,), folder=f"group_size_{size}")
            yield from cell.curves({"group_size": size, "floor": floor})


def inert_difference(records: Records) -> float:
    """The largest difference between runs of one row and seed with floors up to 1/G.

    Nothing is random in it: the claim is that these are one computation.
    """
    differences = []
    for row, cells in records.each("group_size"):
        inert = [floor for floor in cells.distinct("floor") if floor <= 1 / row["group_size"]]
        ends = [cells.ends("recovery", floor=floor) for floor in inert]
        differences += [np.abs(one - other).max() for one, other in itertools.pairwise(ends)]
    if not differences:
        raise NotRecorded("there are no two floors up to 1/G in a row")
    return max(differences)


def of_cell(choose: Callable[[np.ndarray], int], records: Records) -> np.ndarray:
    """Recovery of each seed in the cell that is chosen by the means of all."""
    cells = [cell.ends("recovery") for _, cell in records.each("group_size", "floor")]
    return cells[choose(np.mean(cells, axis=1))]


CLAIMS = {
    "floors up to 1/G give the same run": study.below(
        study.Computed("largest difference with floors up to 1/G", inert_difference), 1e-9
    )
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim="The floor of IPS-GRPO acts only above 1/G.",
    scope="an identity, checked in training on causal tasks of HypoSpace, one seed",
    decided_by=tuple(CLAIMS),
)
NUMBERS = {
    "lowest": study.Computed("lowest recovery", functools.partial(of_cell, np.argmin)),
    "highest": study.Computed("highest recovery", functools.partial(of_cell, np.argmax)),
}
PAPER = {"lowest": 0.1763, "highest": 0.4391}
VARIANTS = {
    "group_size_and_floor": study.Variant("Table 4: recovery by group size and floor, causal")
}
TABLE = study.Table(("recovery",), rows=("group_size", "floor"), decimals=2)
CELLS = HeatMap(
    "recovery", "floor", across="group_size", outlined=lambda floor, size: floor <= 1 / size
)
FIGURE = Panels(
    [
        Panel(
            [CELLS],
            "recovery; outlined: floor ≤ 1/G, which cannot act",
            "probability floor",
            "group size G",
        )
    ],
    size=(5.5, 4.2),
)
