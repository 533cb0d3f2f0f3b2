"""How long does a tie of two equally good outcomes last, if only noise can break it?

Claim     Without a baseline, expected return loses one of two outcomes with the same reward to the noise of sampling,
          after G / (h r)^2 (U^2/2 + cosh U - 1) updates on average, U = ln(threshold / (1 - threshold)): linear in the
          group size. With a group mean an exact tie does not move at all. Inverse probability scaling keeps it
          at alpha = 1, and with few exceptions at alpha = 1/2.
Paper     Ours, after arXiv 2601.21669, which says that expected return collapses even with equal rewards; the formula
          is derived (limit of small steps), and so is what a group mean does.
Arms      REINFORCE without a baseline, with 2000 seeds in groups of 4, 8, 16, 32 and 64, until the tie is lost; beside
          it the formula, and the exact mean for steps of this size. GRPO and Dr. GRPO, IPS-REINFORCE with an alpha of 1
          and of 1/2, IPS-Dr. GRPO and IPS-GRPO, with 200 seeds each, for 20,000 updates. All by plain gradient descent
          with steps of 0.5, both rewards 1.
Command   python -m experiments.collapse_time
Time      demo one minute on two busy CPU cores, smoke half of one.
Expected  Without a baseline a tie lasts 520 [504, 537] updates in groups of four and 8018 [7757, 8277] in groups of
          sixty-four; exactly, for steps of this size, 522 and 8026, and a little less by the formula. Of the runs of
          the other objectives none collapses, except for 1 % [0.48, 1.8] of those with an alpha of one half.
Doubt     Those that keep the tie are watched for 20,000 updates, so that a rarer loss would be missed. Two logits share
          nothing; other steps, unequal rewards, or an optimiser that rescales its steps, such as Adam, are other
          clocks. Limits, 10 % of the exact mean and 0.5 % of the runs, are ours.
Smoke     python -m experiments.collapse_time --preset=smoke

Two logits start equal and are trained by plain gradient descent with steps h on sampled groups of G; both outcomes pay
r. A run has collapsed when one has reached the probability `threshold`; the winner can change after that.
"""

import dataclasses
import functools
import math

import numpy as np

from experiments.collapse_time.passage_times import mean_first_passage
from experiments.collapse_time.tie_collapse import tie_collapse_time
from ipsrl import objectives, study
from ipsrl.checking.fields import Range, in_range, positive
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.softmax.two_outcome_training import (
    LARGEST_GROUP,
    Cell,
    advantage_weighted_frequencies,
    first_passage,
)
from ipsrl.figures.layers import Bars, Level, Line, Markers
from ipsrl.figures.panels import Panel, Panels

COLLAPSES = "reinforce"
HALF = "ips_reinforce(alpha=0.5)"
KEEPERS = ("dr_grpo", "grpo", "ips_reinforce", "ips_dr_grpo", "ips_grpo")
# Mean times after which a run counts as lost: exit times have exponential tails.
MOST = 40
# A tie that lasts fewer updates is not lost in small steps.
FEWEST_STEPS = 10
# A tie that lasts more updates cannot be sampled: they are counted in int32.
MOST_STEPS = 2**31 / MOST / 2
ABOVE_A_TIE = Range(
    "lie between 1/2, where a tie starts, and 1", lambda threshold: 0.5 < threshold < 1
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`keepers` are objectives that should keep the tie; they are trained for `keeper_steps` updates."""

    group_sizes: tuple[int, ...] = study.rising((4, 8, 16, 32, 64), least=2, most=LARGEST_GROUP)
    seeds: tuple[int, ...] = study.seeds(range(2000), least=2)
    step_size: float = positive(0.5)
    reward: float = positive(1.0)
    threshold: float = in_range(ABOVE_A_TIE, 0.98)
    keepers: tuple[str, ...] = study.objectives((*KEEPERS[:2], HALF, *KEEPERS[2:]))
    keeper_seeds: tuple[int, ...] = study.seeds(range(200))
    keeper_steps: int = in_range(
        Range("be positive and below 2^30", lambda steps: 0 < steps < 2**30), 20000
    )

    def __post_init__(self):
        super().__post_init__()
        shortest, longest = self.formula[0], self.formula[-1]
        if shortest < FEWEST_STEPS or longest > MOST_STEPS:
            allowed = f"it must be {FEWEST_STEPS} to {MOST_STEPS:.2g}: change --step_size, --reward or --threshold"
            raise ValueError(f"a tie would last {shortest:.3g} to {longest:.3g} updates, {allowed}")

    @property
    def formula(self) -> list[float]:
        """Mean number of updates in the limit of small steps, for each group size."""
        where = (self.step_size, self.reward, self.threshold)
        return [tie_collapse_time(size, *where) for size in self.group_sizes]

    @property
    def bounds(self) -> tuple[float, float]:
        """-U and U, the log-ratios at which an outcome reaches the threshold."""
        bound = math.log(self.threshold / (1 - self.threshold))
        return -bound, bound

    def tied(self, text: str) -> list[Cell]:
        """Runs of an objective from the tie, one for each group size."""
        rewards = (self.reward, self.reward)
        return [
            Cell(objectives.make(text), rewards, size, self.step_size) for size in self.group_sizes
        ]


PRESETS = {
    "smoke": Settings((4, 16), tuple(range(400)), keeper_seeds=tuple(range(40)), keeper_steps=4000),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    cells = [cell for text in settings.keepers for cell in settings.tied(text)]
    # What has no closed form is refused before any training.
    for cell in cells[:: len(settings.group_sizes)]:
        advantage_weighted_frequencies(cell.objective, cell.rewards, cell.group_size)
    watch = (settings.keeper_seeds, *settings.bounds, settings.keeper_steps, make_mesh())
    # One program for all keepers.
    passages = functools.cache(
        lambda: np.split(first_passage(cells, *watch), len(settings.keepers))
    )

    def kept(number: int) -> study.Points:
        values = {
            "group_size": settings.group_sizes,
            "collapsed": np.isfinite(passages()[number].T).astype(int),
        }
        return study.Points(
            [settings.keeper_steps] * len(settings.group_sizes), values, settings.keeper_seeds
        )

    yield study.Curve(
        {"objective": COLLAPSES}, functools.partial(collapse_times, settings), ["group_size"]
    )
    for number, text in enumerate(settings.keepers):
        yield study.Curve({"objective": text}, functools.partial(kept, number), ["group_size"])


def collapse_times(settings: Settings) -> study.Points:
    """Collapse times: sampled, in the limit of small steps, and exact for this step size."""
    cells, formula, bounds = settings.tied(COLLAPSES), settings.formula, settings.bounds
    times = first_passage(cells, settings.seeds, *bounds, round(MOST * max(formula)), make_mesh())
    exact = [mean_first_passage(cell, *bounds) for cell in cells]
    values = {
        "group_size": settings.group_sizes,
        "updates": times.T,
        "formula": formula,
        "exact": exact,
    }
    return study.Points([round(time) for time in times.mean(axis=1)], values, settings.seeds)


COLUMNS = {
    "updates": f"until {COLLAPSES} collapses",
    "formula": "formula",
    "exact": "exact for these steps",
}
TABLE = study.Table(COLUMNS, "updates, mean of runs", where={"objective": COLLAPSES})
NUMBERS = {f"share of runs that {HALF} collapses": study.share("collapsed", objective=HALF)}
TIME, EXACT = study.final("updates"), study.final("exact")
CLAIMS = {
    "a tie lasts in proportion to G: mean times are within 10 % of the exact ones": study.at_each(
        "group_size",
        study.every((study.above(TIME, 0.9 * EXACT), study.below(TIME, 1.1 * EXACT))),
        objective=COLLAPSES,
    ),
    "with a group mean, and scaled with alpha = 1, under 0.5 % of the runs collapse": study.every(
        study.below(study.share("collapsed", objective=name), 0.005) for name in KEEPERS
    ),
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim=(
        "Without a baseline sampling noise breaks a tie in time linear in G; group means and inverse scaling keep it."
    ),
    scope="two equal outcomes in a table of logits, groups of 4 to 64",
    decided_by=tuple(CLAIMS),
)
G = {"along": "group_size", "where": {"objective": COLLAPSES}}
AXES = {"xlabel": "group size G", "xscale": "log2"}
TIMES = Panel(
    [
        Line("formula", **G, markers=False, named=False),
        Markers("updates", **G),
        Level(lambda settings: settings.keeper_steps, "the others are watched until here"),
    ],
    f"{COLLAPSES}, line: formula",
    ylabel="updates until one has {threshold:g}",
    yscale="log",
    **AXES,
)
RATIOS = Panel(
    [
        Line("exact", **G, over="formula", dashed=True, named=False),
        Markers("updates", **G, over="formula"),
        Level(1, "formula"),
    ],
    "dashed: exact for these steps",
    ylabel="updates / formula",
    **AXES,
)
LOST = Panel(
    [Bars("collapsed")], xlabel="share of runs that collapse within {keeper_steps:,} updates"
)
FIGURE = Panels([TIMES, RATIOS, LOST])
