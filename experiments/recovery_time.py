"""How long does a nearly dead outcome take to come back? Long, if its probability is a count in a small group.

Claim     In groups of G samples an outcome with p_2 << 1/G is rarely seen, and nothing scales up what is not seen: it
          recovers as dp_2/dt = c p_2^2, so that the time grows as 1 / (c p_2(0)). With exact probabilities (infinitely
          many samples) it grows with the logarithm of 1 / p_2(0) only.
Paper     The rule is Algorithm 1 of arXiv 2601.21669, exact scaling its Theorem 4.1; the times are derived.
Command   python -m experiments.recovery_time
Time      demo and smoke under half a minute on two CPU cores, paper under two minutes.
Expected  no baseline, G = 16: 5.42 [5.35, 5.49], 44.2 [43.6, 44.8], 427 [420, 434] from p_2 = 1e-2, 1e-3, 1e-4 (200
          seeds); mean field 5.35, 44.1, 420; 1 / (c p_2) 4.17, 41.7, 417; exact probabilities 1.51, 2.69, 3.85. Steps
          of 0.01 take 1 % longer than the mean field's small ones. With a group mean and std it takes three times as
          long: 13.7, 132, 1298.
Smoke     python -m experiments.recovery_time --preset=smoke
Figure    OUT/recovery_time.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.

Recovered is an outcome that has half of its probability at rest without a baseline. Time is updates x step size. Exact
probabilities are shown as a flow only: a single sample of an outcome of probability 1e-4 has the weight 1e4 there, and
would throw the policy to the other side at any step size at which counts can be sampled.
"""

import dataclasses
import math
import sys
import time

import numpy as np
from scipy.special import logit

from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from experiments.two_outcome_rules import OBJECTIVES, require_ordered_rewards, require_several_seeds
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.finite_groups import Rule, count_weights
from ipsrl.dynamics.step_sizes import largest_surviving_step
from ipsrl.dynamics.survival import smallest_group, stationary_law
from ipsrl.dynamics.time_scales import ideal_recovery_time, recovery_coefficient, recovery_time
from ipsrl.dynamics.two_outcome_training import LARGEST_GROUP, Cell, first_passage
from ipsrl.figures import recovery_time as figure
from ipsrl.figures import style
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder

BEYOND = 100
"""Theory is shown down to starts this much rarer than the rarest sampled one."""
MOST = 20
"""Updates after which a run is given up, in recovery times of the mean field."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment: `starts` are p_2 at the start of the sampled runs; the better reward comes first."""

    rewards: str = "4.0,1.0"
    alpha: float = 1.0
    group_size: int = 16
    starts: str = "1e-2,1e-3,1e-4"
    seeds: str = "0:200"
    step_size: float = 0.01

    def __post_init__(self):
        require_positive(self, "alpha", "step_size")
        require_ordered_rewards(self.rewards)
        require_several_seeds("seeds", self.seeds)
        _check_group(self)
        longest_step = largest_surviving_step(read_numbers(self.rewards, count=2), weights_of(self))
        if not self.step_size < longest_step:
            raise ValueError(
                f"--step_size={self.step_size} lets the weaker outcome die out without a baseline, "
                f"it must be below {longest_step:.3g}"
            )
        if not 0 < min(read_numbers(self.starts)) <= max(read_numbers(self.starts)) < recovered(self):
            raise ValueError(f"--starts={self.starts} must lie between 0 and {recovered(self):.3g}, where runs end")


def _check_group(settings: Settings) -> None:
    """Raises ValueError unless the weaker outcome comes back under all rules."""
    better, worse = read_numbers(settings.rewards, count=2)
    if not settings.alpha * math.log(LARGEST_GROUP) + math.log(better) < math.log(np.finfo(np.float32).max):
        raise ValueError(
            f"--alpha={settings.alpha} or --rewards is too large: r_1 {LARGEST_GROUP}^alpha must fit in float32"
        )
    # With a group mean it takes the larger group.
    smallest = smallest_group(better / worse, "group mean", settings.alpha)
    if smallest > LARGEST_GROUP:
        raise ValueError(
            f"--rewards={settings.rewards} are too far apart for --alpha={settings.alpha}: the weaker outcome survives "
            f"only in groups of more than {LARGEST_GROUP}, which cannot be sampled here"
        )
    if not smallest <= settings.group_size <= LARGEST_GROUP:
        raise ValueError(
            f"--group_size is {settings.group_size}, it must lie between {smallest}, the first above "
            f"1 + (r_1 / r_2)^(1 / alpha), where the weaker outcome survives, and {LARGEST_GROUP}"
        )
    for rule in OBJECTIVES:
        rest = stationary_law(np.array([better, worse]), weights_of(settings), rule)[1]
        if not rest > recovered(settings):
            raise ValueError(
                f"--group_size={settings.group_size} is too small: with {rule} the weaker outcome rests at {rest:.3g}, "
                f"below {recovered(settings):.3g}, half of its rest without a baseline"
            )


def weights_of(settings: Settings) -> np.ndarray:
    """`[G]`, of the counts."""
    return count_weights(settings.group_size, settings.alpha)


def recovered(settings: Settings) -> float:
    """p_2 at which an outcome has recovered: half of what it has at rest without a baseline."""
    rewards = np.array(read_numbers(settings.rewards, count=2))
    return float(stationary_law(rewards, weights_of(settings), "no baseline")[1]) / 2


PRESETS = {
    "smoke": Settings(starts="1e-2,1e-3", seeds="0:20", step_size=0.05),
    "demo": Settings(),
    "paper": Settings(starts="1e-2,1e-3,1e-4,1e-5", seeds="0:400"),
}


@dataclasses.dataclass(frozen=True)
class Point:
    """One start of sampled training; times are updates x step size.

    Attributes:
      start: p_2.
      sampled: mean over runs.
      mean_field: of the same rule and group size.
      approximation: 1 / (c p_2).
    """

    start: float
    sampled: Interval
    mean_field: float
    approximation: float


def run(settings: Settings, output: Output) -> None:
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        points = {rule: recovery_times(rule, settings) for rule in OBJECTIVES}
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            for rule, of_rule in points.items():
                for point in of_rule:
                    record = {"rule": rule, **dataclasses.asdict(point)}
                    log.write(round(point.sampled.mean / settings.step_size), record | record.pop("sampled"))
        rows = {rule: [dataclasses.asdict(point) for point in of_rule] for rule, of_rule in points.items()}
        print(
            f"time (updates x {settings.step_size:g}) until p_2 is {recovered(settings):.4f}; sampled: mean of "
            f"{len(read_seeds(settings.seeds))} runs [95 % bootstrap interval]\n"
            "p_2 at the start    rule                  sampled                    mean field    1 / (c p_2)"
        )
        for rule, of_rule in points.items():
            for point in of_rule:
                times = point.sampled
                sampled = f"{times.mean:.4g} [{times.low:.4g}, {times.high:.4g}]"
                print(
                    f"{point.start:<19g} {rule:21s} {sampled:26s} {point.mean_field:<13.4g} {point.approximation:.4g}"
                )
        for start in starts(settings):
            print(f"{start:<19g} {'exact probabilities':21s} {'':26s} {ideal_time(start, settings):.4g}")
        curves, ideal = theory(points, settings)
        drawn = figure.draw(curves, ideal, settings.group_size, recovered(settings))
        png = style.save(drawn, folder.path / "recovery_time", figure.data(curves, ideal))
        folder.write_summary({"recovered": recovered(settings), "rules": rows})
        print(f"figure: {png}")


def recovery_times(rule: Rule, settings: Settings) -> list[Point]:
    """Sampled and mean-field times of one rule, for each start."""
    rewards, weights = read_numbers(settings.rewards, count=2), weights_of(settings)
    coefficient, end = recovery_coefficient(rewards, weights, rule), recovered(settings)
    points, begin = [], time.monotonic()
    for start in starts(settings):
        mean_field = recovery_time(start, end, rewards, weights, rule)
        cell = Cell(
            objectives.make(f"{OBJECTIVES[rule]}(alpha={settings.alpha})"),
            rewards,
            settings.group_size,
            settings.step_size,
            log_ratio=-float(logit(start)),
        )
        most_steps = round(MOST * mean_field / settings.step_size)
        seeds, bound = read_seeds(settings.seeds), -float(logit(end))
        # One start at a time: the program runs until the last run has ended.
        with working(f"training {rule} from {start:g}"):
            steps = first_passage([cell], seeds, bound, math.inf, most_steps, make_mesh())
        if not np.isfinite(steps).all():
            raise ValueError(f"some runs with {rule} did not recover from {start:g}: take a smaller --step_size")
        times = mean_over_seeds(steps[0] * settings.step_size)
        points.append(Point(start, times, mean_field, 1 / (coefficient * start)))
    print(f"trained {rule} in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return points


def theory(points: dict[Rule, list[Point]], settings: Settings) -> tuple[list[figure.Curve], np.ndarray]:
    """The curves of the figure, with the mean field and the flow of exact probabilities on a fine grid of starts."""
    rewards, end = read_numbers(settings.rewards, count=2), recovered(settings)
    grid = np.geomspace(starts(settings)[0], starts(settings)[-1] / BEYOND, 25)
    curves = [
        figure.Curve(
            rule=rule,
            sampled_starts=np.array(starts(settings)),
            sampled=[point.sampled for point in of_rule],
            mean_field=np.array([point.mean_field for point in of_rule]),
            starts=grid,
            times=np.array([recovery_time(float(p), end, rewards, weights_of(settings), rule) for p in grid]),
        )
        for rule, of_rule in points.items()
    ]
    return curves, np.array([ideal_time(float(p), settings) for p in grid])


def ideal_time(start: float, settings: Settings) -> float:
    """Recovery time in the flow of exact probabilities."""
    return ideal_recovery_time(start, recovered(settings), read_numbers(settings.rewards, count=2), settings.alpha)


def starts(settings: Settings) -> list[float]:
    """p_2 at the start of the sampled runs, falling."""
    return sorted(read_numbers(settings.starts), reverse=True)


if __name__ == "__main__":
    launch("recovery_time", PRESETS, run)
