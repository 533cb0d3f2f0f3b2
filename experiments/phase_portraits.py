"""Phase portraits: where expected training takes a policy over three outcomes, by any objectives.

Claim     Expected return ends on one outcome, even where two are equally good; a penalty towards a reference policy
          keeps a trace of the others; inverse probability scaling and trajectory balance rest where each outcome is as
          frequent as its reward says, scaling by counts a little beside.
Paper     Theorems 3.1 and 4.1 of arXiv 2601.21669 for expected return and inverse probability scaling; the others are
          of no one paper: exact dynamics of the objectives' own code.
Command   python -m experiments.phase_portraits --document=docs/phase_portraits.png
Time      demo under two minutes on two busy CPU cores, smoke half a minute, paper five.
Expected  of the demo, no sampling and no seeds, attracting laws at rewards (1, 1, 0.5) and (1, 0.6, 0.3):
          grpo every law of the first two, which paths leave for one of them; (1, 0, 0)
          grpo(kl=0.1) (0.494, 0.494, 0.012); (0.974, 0.013, 0.013)
          progrpo(reference=correct) (0.5, 0.5, 0); (1, 0, 0)
          darling (0.5, 0.5, 0); (0.667, 0.333, 0)
          gapo (0.333, 0.333, 0.333) for both, and every law of two outcomes: what is rare dies, whatever it pays
          ips_grpo (0.425, 0.425, 0.150); (0.582, 0.317, 0.101)
          ips_reinforce(probability=exact) and trajectory_balance (0.4, 0.4, 0.2); (0.526, 0.316, 0.158), that is r / R
Smoke     python -m experiments.phase_portraits --preset=smoke
Figure    OUT/phase_portraits.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.

`--document` writes the PNG there as well, in 128 colours, which makes it a quarter of its size.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.stats.qmc import Halton

from experiments.arenas import group_and_rule
from experiments.launch import Output, launch, read_numbers, require_positive
from ipsrl import objectives, specifications
from ipsrl.dynamics.rest_points import AT_REST, NOTHING, TRACE, Field, RestPoint, follow, growth, rest_points
from ipsrl.dynamics.verdict import check
from ipsrl.figures import phase_portraits, style
from ipsrl.figures.phase_portraits import LINES_FOR_ONE_ARROW, Portrait
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment.

    `rewards` holds one vector or several, between semicolons; `reference` is the law of the reference policy, uniform
    where it is empty; `arrows` is how many there are along an edge, `starts` how many paths each portrait has, `seed`
    which starts these are, `document` a further path for the figure, which ends in .png.
    """

    objectives: str = (
        "grpo,grpo(kl=0.1),progrpo(reference=correct),darling,"
        "gapo,ips_grpo,ips_reinforce(probability=exact),trajectory_balance"
    )
    rewards: str = "1,1,0.5;1,0.6,0.3"
    group_size: int = 8
    reference: str = ""
    arrows: int = 12
    starts: int = 7
    seed: int = 215
    document: str = ""

    def __post_init__(self):
        require_positive(self, "group_size", "starts")
        if self.arrows < 3:
            raise ValueError(f"--arrows is {self.arrows}, it must be at least 3: the outer ones are left out")
        for rewards in self.reward_vectors:
            if not np.isfinite(rewards).all():
                raise ValueError(f"--rewards={self.rewards} must be finite numbers")
            if min(rewards) < 0 or max(rewards) == 0:
                raise ValueError(f"--rewards={self.rewards} must not be negative, nor all zero")
        law = self.reference_law
        if law is not None and not (min(law) > 0 and abs(sum(law) - 1) <= 1e-6):
            raise ValueError(f"--reference={self.reference} must be three positive probabilities whose sum is 1")
        if self.document and Path(self.document).suffix != ".png":
            raise ValueError(f"--document={self.document} must end in .png")

    @property
    def reward_vectors(self) -> list[tuple[float, float, float]]:
        return [read_numbers(vector, count=3) for vector in self.rewards.split(";")]

    @property
    def reference_law(self) -> tuple[float, float, float] | None:
        return read_numbers(self.reference, count=3) if self.reference else None


PRESETS = {
    "smoke": Settings(objectives="grpo,ips_grpo", group_size=4, arrows=6, starts=3),
    "demo": Settings(),
    "paper": Settings(group_size=16, rewards="1,1,0;1,1,0.5;1,0.6,0.3", arrows=16, starts=9),
}


def run(settings: Settings, output: Output) -> None:
    chosen = specifications.split(settings.objectives)
    fields = {
        (name, rewards): field_of(name, rewards, settings) for name in chosen for rewards in settings.reward_vectors
    }
    # What is computed does not depend on where it is shown.
    config = dataclasses.asdict(dataclasses.replace(settings, document=""))
    with RunFolder.open(output.path, config, output.resume) as folder:
        portraits = []
        for number, ((name, rewards), field) in enumerate(fields.items(), start=1):
            with working(f"following {name}, {number} of {len(fields)}"):
                portraits.append(portrait_of(name, field, settings))
            print(f"trained {name} in expectation, rewards {_shown(rewards)}", file=sys.stderr, flush=True)
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            for number, (portrait, point) in enumerate((p, point) for p in portraits for point in p.rest_points):
                log.write(number, record_of(portrait, point))
        print("attracting law: where expected training ends; slowest rate: deviations among the outcomes that the law")
        print("has shrink as exp(-rate t), t = updates x step size; lost as: the probability of the others at large t,")
        print("from its decline at p = 1e-6")
        print(f"{'objective':34s} {'rewards':10s} {'slowest rate':>12s}  {'lost as':16s}  attracting laws")
        for portrait in portraits:
            print(row_of(portrait))
        png = style.save(
            phase_portraits.draw(portraits, reference=settings.reference_law),
            folder.path / "phase_portraits",
            phase_portraits.data(portraits),
            phase_portraits.caption(settings.group_size),
        )
        folder.write_summary({"portraits": list(map(summary_of, portraits))})
    if settings.document:
        Path(settings.document).parent.mkdir(parents=True, exist_ok=True)
        with Image.open(png) as image:
            palette = image.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        palette.save(settings.document, optimize=True)
        print(f"document: {settings.document}")
    print(f"figure: {png}")


def field_of(name: str, rewards: tuple[float, float, float], settings: Settings) -> Field:
    """The expected update of an objective.

    Raises:
      ValueError: it cannot be computed on a bandit, or not exactly.
    """
    group_size, off_policy = group_and_rule(name, settings.group_size)
    field = Field(objectives.make(name), rewards, group_size, settings.reference_law, off_policy)
    try:
        check(field.objective, group_size, off_policy)
        field(np.zeros((1, 3)))
    except ValueError as error:
        raise ValueError(f"{name} has no portrait: {error}") from None
    return field


def portrait_of(name: str, field: Field, settings: Settings) -> Portrait:
    intervals = LINES_FOR_ONE_ARROW * settings.arrows
    laws = phase_portraits.lattice(intervals)
    velocity = laws * growth(laws, field(np.log(np.maximum(laws, NOTHING))))
    moves = np.linalg.norm(velocity, axis=1) > AT_REST * field.scale
    # One by one: where the field jumps, a path is given up, and would take the others along.
    flows = [follow(field, start[None]) for start in spread_starts(settings.starts, settings.seed)]
    return Portrait(
        objective=name,
        rewards=field.rewards,
        intervals=intervals,
        velocity=velocity,
        moves=moves,
        resting_edges=resting_edges(laws, moves),
        paths=[flow.laws[:, 0] for flow in flows],
        finished=[flow.finished for flow in flows],
        rest_points=rest_points(field),
    )


def resting_edges(laws: np.ndarray, moves: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of outcomes between which none of the laws `[N, 3]` moves, `[N]`."""
    return [edge for edge in ((0, 1), (0, 2), (1, 2)) if not moves[laws[:, 3 - sum(edge)] == 0].any()]


def spread_starts(count: int, seed: int) -> np.ndarray:
    """`[count, 3]`, laws spread evenly over the triangle, quasi-random."""
    square = Halton(2, seed=seed).random(count)
    others, share = np.sqrt(square[:, 0]), square[:, 1]
    return np.stack([1 - others, others * (1 - share), others * share], axis=1)


def record_of(portrait: Portrait, point: RestPoint) -> dict[str, float | str]:
    """A rest point for the metric log; outcomes and rates are numbered from 1."""
    record = {"objective": portrait.objective, "rewards": _shown(portrait.rewards), "kind": point.kind}
    record |= {f"p_{number}": value for number, value in enumerate(point.law, start=1)}
    record |= {f"rate_{number}": value for number, value in enumerate(point.rates, start=1)}
    absent = np.flatnonzero(point.law == 0) + 1
    return record | {f"invasion_of_{outcome}": value for outcome, value in zip(absent, point.invasion, strict=True)}


def summary_of(portrait: Portrait) -> dict:
    return {
        "objective": portrait.objective,
        "rewards": portrait.rewards,
        "rests_everywhere": portrait.rests_everywhere,
        "resting_edges": [[first + 1, second + 1] for first, second in portrait.resting_edges],
        "attracting_laws": [point.law.tolist() for point in attracting(portrait)],
        "slowest_rates": list(map(slowest_rate, attracting(portrait))),
        "slowest_losses": [loss and str(loss) for loss in map(slowest_loss, attracting(portrait))],
        "ends_of_paths": [path[-1].tolist() for path in portrait.paths],
        "paths_given_up": portrait.finished.count(False),
    }


def attracting(portrait: Portrait) -> list[RestPoint]:
    return [point for point in portrait.rest_points if point.kind == "attracts"]


def slowest_rate(point: RestPoint) -> float | None:
    """At which the slowest small deviation shrinks among the outcomes of an attracting law; None where it has one."""
    return -float(point.rates.max()) if len(point.rates) else None


@dataclasses.dataclass(frozen=True, order=True)
class Loss:
    """How an outcome that a law lacks is lost: d log p / dt = -speed p^order, slower ones are greater.

    The order is 1 where samples of the outcome move its logit, since they become as rare as it is, and 2 where their
    first order cancels, as under ips_grpo with rewards (1, 1, 0.5) and groups of 4.
    """

    order: int
    time: float
    """1 / speed."""

    def __str__(self):
        """p against t, at large t: (order speed t)^(-1 / order)."""
        if self.order == 0:
            return f"exp(-{1 / self.time:.2g} t)"
        power = "" if self.order == 1 else f"^{1 / self.order:.2g}"
        return f"1 / ({self.order / self.time:.2g} t){power}"


def slowest_loss(point: RestPoint) -> Loss | None:
    """Of the outcomes that an attracting law lacks, from their growth at p = 1e-6; None where it has all.

    The order is the power of p nearest to that growth, over the speed of the field.
    """
    if not len(point.invasion):
        return None
    decline = -float(point.invasion.max())
    order = round(np.log(decline / point.scale) / np.log(TRACE))
    return Loss(order, TRACE**order / decline)


def row_of(portrait: Portrait) -> str:
    """A line of the table."""
    laws = [_law(point.law) for point in attracting(portrait)]
    rates = [rate for rate in map(slowest_rate, attracting(portrait)) if rate is not None]
    losses = [loss for loss in map(slowest_loss, attracting(portrait)) if loss is not None]
    rate = f"{min(rates):.2g}" if rates else ""
    loss = str(max(losses)) if losses else ""
    given_up = portrait.finished.count(False)
    if portrait.rests_everywhere:
        laws = ["none: every law rests"]
    else:
        laws += [f"every law of {first + 1} and {second + 1} rests" for first, second in portrait.resting_edges]
        ends = ", ".join(sorted({_law(path[-1]) for path in portrait.paths}))
        laws = laws or [f"no rest point is stable to first order; paths end near {ends}"]
        laws += [f"{given_up} of {len(portrait.paths)} paths given up where the field jumps"] * (given_up > 0)
    return f"{portrait.objective:34s} {_shown(portrait.rewards):10s} {rate:>12s}  {loss:16s}  {'; '.join(laws)}"


def _law(law: np.ndarray) -> str:
    return " ".join(f"{chance:.3f}" for chance in law)


def _shown(rewards: tuple[float, ...]) -> str:
    return ",".join(f"{reward:g}" for reward in rewards)


if __name__ == "__main__":
    launch("phase_portraits", PRESETS, run)
