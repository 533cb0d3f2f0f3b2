"""How long does a nearly dead outcome take to come back? Long, if its probability is a count in a small group.

Claim     In groups of G samples an outcome with p_2 << 1/G is rarely seen, and nothing scales up what is not seen: it
          recovers as dp_2/dt = c p_2^2, so that the time grows as 1 / (c p_2(0)). With exact probabilities (infinitely
          many samples) it grows with the logarithm of 1 / p_2(0) only.
Paper     Ours, after arXiv 2601.21669: the rule is its Algorithm 1, exact scaling Theorem 4.1; the times are derived.
Arms      Inverse probability scaling by counts without a baseline, with a group mean, and with a group mean and std;
          each from three starts, p_2 = 0.01, 0.001 and 0.0001, with 200 seeds, by plain gradient descent with steps of
          0.01, in groups of 16. Beside them the mean field of each rule, its approximation 1 / (c p_2(0)), and the flow
          with exact probabilities, which is computed and not sampled.
Command   python -m experiments.recovery_time
Time      demo and smoke under half a minute on two CPU cores, paper under two minutes.
Expected  Without a baseline an outcome of probability one in ten thousand takes 427 [420, 434] to come back; by the
          mean field 420, by the claim's approximation 417, with exact probabilities 3.85. With a group mean and std it
          takes three times as long, 1298.
Doubt     Two outcomes in a table of logits, one group size and one small step: with long steps noise loses the weaker
          outcome, and Adam, which is not tried, sets its own speed. A network whose outcomes share parameters may raise
          a rare one along with others. The margin of 10 % is ours.
Smoke     python -m experiments.recovery_time --preset=smoke

Two logits, whose outcomes pay four and one, are trained by plain gradient descent on sampled groups. Recovered is an
outcome that has half of its probability at rest without a baseline. Time is updates x step size. Exact
probabilities are a flow only: one sample of an outcome of probability 1e-4 would throw the policy to the other side.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy.special import logit

from experiments.recovery_time.recovery_times import (
    ideal_recovery_time,
    recovery_coefficient,
    recovery_time,
)
from experiments.recovery_time.step_sizes import largest_surviving_step
from ipsrl import objectives, study
from ipsrl.checking.fields import between, positive
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.softmax.finite_groups import COUNT_RULES, Rule, count_weights
from ipsrl.dynamics.softmax.survival import smallest_group, weaker_at_rest
from ipsrl.dynamics.softmax.two_outcome_training import (
    LARGEST_GROUP,
    MOST_STEPS,
    Cell,
    first_passage,
)
from ipsrl.figures.layers import Line, Markers
from ipsrl.figures.panels import Panel, Panels

EXACT = "exact probabilities"
MOST_TIMES = 20
"""Recovery times of the mean field after which a run counts as lost."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`starts` are the initial p_2 of the sampled runs; `rewards` has the better one first."""

    rewards: tuple[float, ...] = study.better_and_worse((4.0, 1.0))
    alpha: float = between(0.01, 8, 1.0)
    group_size: int = between(2, LARGEST_GROUP, 16)
    starts: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    seeds: tuple[int, ...] = study.seeds(range(200), least=2)
    step_size: float = positive(0.01)

    def __post_init__(self):
        super().__post_init__()
        weakest = min(map(self.at_rest, COUNT_RULES))
        if not weakest > self.recovered:
            smallest = smallest_group(self.rewards[0] / self.rewards[1], "group mean", self.alpha)
            why = f"p_2 rests at {weakest:.3g} under some rule; the weaker outcome survives from {smallest} on"
            raise ValueError(f"--group_size={self.group_size} is too small: {why}")
        longest = largest_surviving_step(self.rewards, self.weights)
        if not self.step_size < longest:
            raise ValueError(
                f"--step_size={self.step_size} loses the weaker outcome: it must be below {longest:.3g}"
            )
        if not 0 < min(self.starts) <= max(self.starts) < self.recovered:
            raise ValueError(
                f"--starts={self.starts} must lie between 0 and {self.recovered:.3g}, where runs end"
            )

    @property
    def weights(self) -> np.ndarray:
        """`[G]`, the weight for each count."""
        return count_weights(self.group_size, self.alpha)

    def at_rest(self, rule: Rule) -> float:
        """p_2 of the mean field's rest point."""
        return weaker_at_rest(self.rewards, self.group_size, rule, self.alpha)

    @property
    def recovered(self) -> float:
        """The p_2 at which a run ends."""
        return self.at_rest("no baseline") / 2


PRESETS = {
    "smoke": Settings(starts=(1e-2, 1e-3)),
    "demo": Settings(),
    "paper": Settings(starts=(1e-2, 1e-3, 1e-4, 1e-5), seeds=tuple(range(400))),
}


def curves(settings: Settings) -> study.Curves:
    for rule in COUNT_RULES:
        for start in settings.starts:
            labels = {"rule": rule, "kind": "sampled", "start": start}
            most = most_steps(rule, start, settings)
            if most > MOST_STEPS:
                raise ValueError(
                    f"--starts has {start}, from where a run may take {most:.3g} steps, but {MOST_STEPS} can be "
                    "counted: take larger starts or a larger --step_size"
                )
            yield study.Curve(labels, functools.partial(sampled_times, rule, start, settings))
    for rule in (*COUNT_RULES, EXACT):
        yield study.Curve(
            {"rule": rule, "kind": "theory"}, functools.partial(theory, rule, settings)
        )


def theory(rule: str, settings: Settings) -> study.Points:
    """Times of the mean field, down to starts a hundred times rarer than the rarest sampled one."""
    between = np.geomspace(max(settings.starts), min(settings.starts) / 100, 25)
    starts = sorted({*settings.starts, *between.tolist()})
    times = [mean_field_time(rule, start, settings) for start in starts]
    return study.Points(range(len(starts)), {"start": starts, "mean_field": times})


def mean_field_time(rule: str, start: float, settings: Settings) -> float:
    if rule == EXACT:
        return ideal_recovery_time(start, settings.recovered, settings.rewards, settings.alpha)
    return recovery_time(start, settings.recovered, settings.rewards, settings.weights, rule)


def most_steps(rule: Rule, start: float, settings: Settings) -> int:
    """After which a run counts as lost."""
    return round(MOST_TIMES * mean_field_time(rule, start, settings) / settings.step_size)


def sampled_times(rule: Rule, start: float, settings: Settings) -> study.Points:
    """The time of each seed, beside the mean field's time and 1 / (c p_2)."""
    mean_field = mean_field_time(rule, start, settings)
    objective = objectives.make(f"{COUNT_RULES[rule]}(alpha={settings.alpha})")
    size, log_ratio = settings.step_size, -float(logit(start))
    cell = Cell(objective, settings.rewards, settings.group_size, size, log_ratio=log_ratio)
    most = most_steps(rule, start, settings)
    bound = -float(logit(settings.recovered))
    steps = first_passage([cell], settings.seeds, bound, math.inf, most, make_mesh())[0]
    if not np.isfinite(steps).all():
        raise ValueError(
            f"some runs with {rule} did not recover from {start:g}: take a smaller --step_size"
        )
    coefficient = recovery_coefficient(settings.rewards, settings.weights, rule)
    values = {
        "time": (steps * settings.step_size)[:, None],
        "mean_field": mean_field,
        "approximation": 1 / (coefficient * start),
    }
    return study.Points([round(steps.mean())], values, settings.seeds)


TIME, MEAN_FIELD = study.final("time"), study.final("mean_field")
WITHIN_A_TENTH = study.every(
    (study.above(TIME, 0.9 * MEAN_FIELD), study.below(TIME, 1.1 * MEAN_FIELD))
)
CLAIMS = {
    "the mean time is within 10 % of the mean field's from every start": study.at_each(
        "rule", study.at_each("start", WITHIN_A_TENTH), kind="sampled"
    )
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim=(
        "In groups of samples a nearly dead outcome comes back as slowly as dp/dt = c p^2 says."
    ),
    scope="two outcomes in a table of logits, groups of 16",
    decided_by=tuple(CLAIMS),
)
COLUMNS = {"time": "sampled", "mean_field": "mean field", "approximation": "1 / (c p_2)"}
HEAD = "time (updates x {step_size:g}) until p_2 is half of its rest without a baseline, by p_2 at the start"
TABLE = study.Table(COLUMNS, HEAD, where={"kind": "sampled"})
TITLE = "inverse probability scaling, groups of {group_size}: lines are mean fields"
START = "probability of the weaker outcome at the start (rarer to the right)"
TIMES = Panel(
    [
        Line("mean_field", "start", "rule", {"kind": "theory"}, markers=False),
        Markers("time", "start", "rule"),
    ],
    TITLE,
    START,
    "time to recover (updates × step size)",
    xscale="log",
    yscale="log",
    reversed=True,
)
FIGURE = Panels([TIMES], size=(7.5, 4.6))
