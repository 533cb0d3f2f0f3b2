"""How long does a tie of two equally good outcomes last, if only noise can break it?

Claim     Without a baseline, expected return loses one of two outcomes with the same reward to the noise of sampling,
          after G / (h r)^2 (U^2/2 + cosh U - 1) updates on average, U = ln(threshold / (1 - threshold)): linear in the
          group size. With a group mean an exact tie does not move at all. Inverse probability scaling keeps it
          at alpha = 1, and with few exceptions at alpha = 1/2.
Paper     After arXiv 2601.21669, which says that expected return collapses even with equal rewards; the formula is
          derived (limit of small steps), and so is what a group mean does.
Command   python -m experiments.collapse_time
Time      demo one minute on two busy CPU cores, smoke half of one; paper, not run, an estimated ten.
Expected  520 [504, 537], 1023 [991, 1055], 2054 [1989, 2119], 3992 [3865, 4122] and 8018 [7757, 8277] updates (2000
          seeds) for G = 4 ... 64. The formula says 497, 995, 1989, 3979, 7957, less by 5 % at G = 4 and 1 % at G = 64
          than the exact mean for steps of this size, 522, 1023, 2026, 4029, 8026, which all intervals hold.
          Of 1000 runs of each other objective none collapses in 20,000 updates [0, 0.37 %], but with alpha = 0.5
          1 % [0.48, 1.8] do.
Smoke     python -m experiments.collapse_time --preset=smoke
Figure    OUT/collapse_time.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.

A run has collapsed when an outcome has reached the probability `threshold`; the winner can change after that.
"""

import dataclasses
import math
import sys
import time

import numpy as np
from scipy.stats import binomtest

from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from experiments.two_outcome_rules import require_rising_groups, require_several_seeds
from ipsrl import objectives, specifications
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.passage_times import mean_first_passage
from ipsrl.dynamics.time_scales import tie_collapse_time
from ipsrl.dynamics.two_outcome_training import Cell, first_passage, group_pushes
from ipsrl.figures import collapse_time as figure
from ipsrl.figures import style
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder

COLLAPSES = "reinforce"
MOST = 40
"""Updates after which a run is given up, in mean collapse times: exit times have exponential tails."""
FEWEST_STEPS = 10
"""A tie that lasts fewer updates is not lost in small steps."""
MOST_STEPS = 2**31 / MOST / 2
"""A tie that lasts more updates cannot be sampled: they are counted in int32."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment; the `keepers`, which should keep the tie, are watched for `keeper_steps`."""

    group_sizes: str = "4,8,16,32,64"
    seeds: str = "0:2000"
    step_size: float = 0.5
    reward: float = 1.0
    threshold: float = 0.98
    keepers: str = "dr_grpo,grpo,ips_reinforce(alpha=0.5),ips_reinforce,ips_dr_grpo,ips_grpo"
    keeper_seeds: str = "0:200"
    keeper_steps: int = 20000

    def __post_init__(self):
        require_positive(self, "step_size", "reward", "keeper_steps")
        require_rising_groups(self.group_sizes)
        require_several_seeds("seeds", self.seeds)
        read_seeds(self.keeper_seeds)
        if not 0.5 < self.threshold < 1:
            raise ValueError(f"--threshold is {self.threshold}, it must lie between 1/2, where a tie starts, and 1")
        if not self.keeper_steps < 2**30:
            raise ValueError(f"--keeper_steps is {self.keeper_steps}, it must be below 2^30")
        times = small_step_times(self)
        if times[0] < FEWEST_STEPS:
            raise ValueError(
                f"a tie would last {times[0]:.3g} updates in the smallest group, too few for the limit of small steps: "
                "take a smaller --step_size or --reward"
            )
        if times[-1] > MOST_STEPS:
            raise ValueError(
                f"a tie would last {times[-1]:.3g} updates in the largest group, but at most {MOST_STEPS:.3g} can be "
                "sampled: take a lower --threshold, a larger --step_size or smaller --group_sizes"
            )
        for text in specifications.split(self.keepers):
            objectives.make(text)


def small_step_times(settings: Settings) -> list[float]:
    """Mean number of updates in the limit of small steps, for each group size; inf and 0 beyond float64."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        return [
            float(tie_collapse_time(size, np.float64(settings.step_size), settings.reward, settings.threshold))
            for size in read_numbers(settings.group_sizes, int)
        ]


PRESETS = {
    "smoke": Settings(group_sizes="4,16", seeds="0:200", keeper_seeds="0:20", keeper_steps=4000),
    "demo": Settings(),
    "paper": Settings(seeds="0:10000", keeper_seeds="0:400", keeper_steps=100_000),
}


@dataclasses.dataclass(frozen=True)
class Point:
    """One group size; all times are in updates.

    Attributes:
      group_size: G.
      sampled: mean over runs.
      formula: in the limit of small steps.
      exact: for steps of the size that was sampled.
    """

    group_size: int
    sampled: Interval
    formula: float
    exact: float


def run(settings: Settings, output: Output) -> None:
    # What is no table of counts is refused before there is a folder.
    for text in specifications.split(settings.keepers):
        cell = tied_cells(text, settings)[0]
        group_pushes(cell.objective, cell.rewards, cell.group_size)
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        points = collapse_times(settings)
        kept = collapsed_shares(settings)
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            for point in points:
                record = dataclasses.asdict(point)
                log.write(round(point.sampled.mean), record | record.pop("sampled"))
        inside = all(point.sampled.low <= point.exact <= point.sampled.high for point in points)
        print(
            f"updates until {COLLAPSES} gives one of two equal outcomes {settings.threshold:g}, mean of "
            f"{points[0].sampled.seeds} runs [95 % bootstrap interval]\n"
            "G     sampled                 small steps (formula)    these steps (exact)"
        )
        for point in points:
            sampled = f"{point.sampled.mean:.0f} [{point.sampled.low:.0f}, {point.sampled.high:.0f}]"
            print(f"{point.group_size:<5d} {sampled:23s} {point.formula:<24.0f} {point.exact:.0f}")
        print(f"collapsed within {settings.keeper_steps} updates, runs of all group sizes [95 % binomial interval]")
        for text, share in kept.items():
            print(f"{text}: {share.collapsed} of {share.runs} [{100 * share.low:.2g} %, {100 * share.high:.2g} %]")
        shown = {
            "objective": COLLAPSES,
            "sizes": np.array([point.group_size for point in points]),
            "sampled": [point.sampled for point in points],
            "formula": np.array([point.formula for point in points]),
            "exact": np.array([point.exact for point in points]),
            "kept": kept,
        }
        drawn = figure.draw(**shown, threshold=settings.threshold, kept_steps=settings.keeper_steps)
        png = style.save(drawn, folder.path / "collapse_time", figure.data(**shown))
        folder.write_summary(
            {
                "collapse_time": [dataclasses.asdict(point) for point in points],
                "sampled_agrees_with_exact": inside,
                "collapsed_share": {text: dataclasses.asdict(share) for text, share in kept.items()},
            }
        )
        print(f"figure: {png}")


def collapse_times(settings: Settings) -> list[Point]:
    """Sampled, in the limit of small steps, and exact, for each group size."""
    cells, bound, seeds = tied_cells(COLLAPSES, settings), exit_ratio(settings), read_seeds(settings.seeds)
    formulas = small_step_times(settings)
    begin = time.monotonic()
    with working(f"training {COLLAPSES} until it collapses"):
        sampled = first_passage(cells, seeds, -bound, bound, round(MOST * max(formulas)), make_mesh())
    print(f"trained {sampled.size} runs in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return [
        Point(cell.group_size, mean_over_seeds(times), formula, mean_first_passage(cell, -bound, bound))
        for cell, times, formula in zip(cells, sampled, formulas, strict=True)
    ]


def collapsed_shares(settings: Settings) -> dict[str, figure.Share]:
    """For each objective that should keep the tie, how many runs of all group sizes lost it all the same."""
    keepers = specifications.split(settings.keepers)
    cells = [cell for text in keepers for cell in tied_cells(text, settings)]
    bound, seeds = exit_ratio(settings), read_seeds(settings.keeper_seeds)
    with working(f"training {len(keepers)} objectives that should not collapse"):
        passage = first_passage(cells, seeds, -bound, bound, settings.keeper_steps, make_mesh())
    shares = {}
    for text, left in zip(keepers, np.isfinite(passage).reshape(len(keepers), -1), strict=True):
        interval = binomtest(int(left.sum()), left.size).proportion_ci(0.95)
        shares[text] = figure.Share(int(left.sum()), left.size, float(interval.low), float(interval.high))
    return shares


def tied_cells(text: str, settings: Settings) -> list[Cell]:
    """Runs of an objective from the tie, one for each group size."""
    rewards = (settings.reward, settings.reward)
    sizes = read_numbers(settings.group_sizes, int)
    return [Cell(objectives.make(text), rewards, size, settings.step_size) for size in sizes]


def exit_ratio(settings: Settings) -> float:
    """U, the log-ratio at which an outcome has the threshold."""
    return math.log(settings.threshold / (1 - settings.threshold))


if __name__ == "__main__":
    launch("collapse_time", PRESETS, run)
