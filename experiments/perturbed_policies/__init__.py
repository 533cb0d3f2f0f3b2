"""Noise on the scores of a combinatorial problem: what does smoothing a decision cost, and what does it buy?

Claim     The excess risk of a perturbed policy is a bias of order lambda and an error of order 1 / (lambda sqrt(n)), so
          that the best lambda falls as n^(-1/4). Ours, for smooth densities: the solution changes with a probability of
          order lambda, but the bias is of order lambda^2, and the variance of gradients of order 1 / lambda. Decided
          without perturbation, a learned policy has no bias of its own, and lambda should fall as n^(-1/5).
Paper     arXiv 2407.17200 (the bound); the balance, the systems and all sizes are ours. Outcomes: arXiv 2601.21669.
Arms      No smoothing; predict then optimise, by least squares; each lambda decided with and without perturbation; 2 or
          32 draws for an instance, which bounds on expectations do not see. Paths: 40 edges of a 5 by 5 grid cost
          exp(u) + 0.7 v, policies are linear in u, v. Vehicles: 5 tasks, delays that add up along a vehicle. A policy
          is one angle, the best of 97 for the training set: no optimisation error. Outcomes: 20 paths, 3 of reward 1,
          scores trained from 0 by REINFORCE, GRPO, IPS-GRPO, in 2000 steps of groups of 32 perturbed decisions, free or
          of length at most 2 lambda.
Command   python -m experiments.perturbed_policies
Time      demo two CPU minutes, smoke ten seconds.
Expected  For paths with many draws the bias has a slope of 1.87 [1.81, 1.93] over lambda. Without perturbation the best
          lambda falls over n with a slope of -0.22 [-0.34, -0.10], and saves 0.55 of the excess at the smallest n; for
          vehicles it saves less. With few draws it hardly falls and saves little: the noise of draws grows with lambda.
          Decided with perturbation, no lambda is better than none: the bias takes all that is saved. Of three right
          paths GRPO keeps 1.34 and IPS-GRPO 2.99. Bounded scores keep as many at less reward: noise that cannot be
          undone does not save the paths.
Doubt     The classes have one parameter and are searched exactly. Where gradients are followed, or classes are large,
          the bound's 1 / lambda may be real. A pool is a small population, whose roughness moves the best lambda at n =
          400, a tenth of it. Claims and sizes were set after trials with other seeds.
Smoke     python -m experiments.perturbed_policies --preset=smoke
"""

import dataclasses
import functools
import itertools
import math

from experiments.perturbed_policies import perturbed_outcomes
from experiments.perturbed_policies.perturbed_paths import PATHS, POWER_LAW, VEHICLES, Pools
from ipsrl import study
from ipsrl.checking.fields import at_least, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below, near
from ipsrl.study.settings import rising

FEW, MANY = "few", "many"
SYSTEMS = ((PATHS, MANY), (PATHS, FEW), (VEHICLES, MANY))
OUTCOMES = "outcomes"
LAMBDAS = (0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.57, 0.8)
RADII = {"free": math.inf, "bounded": 2.0}
OBJECTIVES = RETURN, GRPO, IPS = ("reinforce", "grpo", "ips_grpo")


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`seeds` draw pools of `size` instances, from which `sets` training sets of each of the `samples` are drawn.

    `draws` are perturbations of each instance, few and many; vehicles have many, and pools of a fourth of the size.
    """

    seeds: tuple[int, ...] = study.seeds(range(100, 106), least=2)
    size: int = at_least(8, 4096)
    angles: int = at_least(3, 97)
    draws: tuple[int, ...] = rising((2, 32), least=2, most=10_000)
    smoothings: tuple[float, ...] = rising((0.0, *LAMBDAS), least=0, most=1000)
    samples: tuple[int, ...] = rising((25, 50, 100, 200, 400), least=1, most=1_000_000)
    sets: int = positive(200)
    trained_seeds: tuple[int, ...] = study.seeds(range(100, 132), least=2)
    steps: int = positive(2000)
    learning_rate: float = positive(0.1)

    def __post_init__(self):
        super().__post_init__()
        least, most = POWER_LAW
        fitted = [each for each in self.smoothings if least <= each <= most]
        if self.smoothings[0] or len(fitted) < 2:
            raise ValueError(
                f"--smoothings is {self.smoothings}, it must begin with 0 and have two from {least} to {most}"
            )
        if len(self.draws) != 2:
            raise ValueError(f"--draws is {self.draws}, it must be two numbers, few draws and many")
        if len(self.samples) < 2:
            raise ValueError(f"--samples is {self.samples}, a slope over them takes two or more")


PRESETS = {
    "smoke": Settings(
        seeds=(0, 1),
        size=1024,
        angles=33,
        draws=(2, 12),
        smoothings=(0.0, 0.1, 0.2, 0.4, 0.8),
        samples=(25, 50),
        sets=50,
        trained_seeds=(0, 1),
        steps=400,
    ),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    few, many = settings.draws
    pools = functools.partial(
        Pools,
        seeds=settings.seeds,
        number=settings.angles,
        smoothings=settings.smoothings,
        samples=settings.samples,
        sets=settings.sets,
    )
    yield from pools(PATHS, few, size=settings.size).curves(FEW)
    yield from pools(PATHS, many, size=settings.size).curves(MANY)
    yield from pools(VEHICLES, many, size=settings.size // 4).curves(MANY)
    of_training = settings.trained_seeds, settings.steps, settings.learning_rate
    for objective, scale in itertools.product(OBJECTIVES, RADII):
        compute = functools.partial(
            perturbed_outcomes.trained, objective, *of_training, RADII[scale]
        )
        yield study.Curve({"world": OUTCOMES, "objective": objective, "scale": scale}, compute)


def slope(name: str, world: str = PATHS, draws: str = MANY) -> study.Number:
    return study.final(name, world=world, draws=draws, kind="exponents")


def of_n(name: str, n: int, world: str = PATHS, draws: str = MANY) -> study.Number:
    return study.final(name, world=world, draws=draws, kind="of n", n=n)


def saved(smoothing: float, n: int, world: str) -> study.Number:
    """The excess of learned policies without a perturbation less the excess of those that decide with it."""
    learned = {"world": world, "draws": MANY, "kind": "learned", "n": n}
    without, perturbed = learned | {"smoothing": 0.0}, learned | {"smoothing": smoothing}
    return study.difference("excess_perturbed", without, perturbed)


def right_paths(objective: str, scale: str = "free", name: str = "effective") -> study.Number:
    return study.final(name, world=OUTCOMES, objective=objective, scale=scale)


CLAIMS = {
    "the solution changes with a probability of order lambda: slope within 0.2 of 1 (paths)": near(
        slope("crossing over lambda"), 1, 0.2
    ),
    "the bias is of order lambda: slope below 1.5 (paths)": below(slope("bias over lambda"), 1.5),
    "the bias is of order lambda: slope below 1.5 (vehicles)": below(
        slope("bias over lambda", VEHICLES), 1.5
    ),
    "the variance of gradients is of order 1 / lambda: slope within 0.2 of -1 (paths)": near(
        slope("variance over lambda"), -1, 0.2
    ),
    **{
        f"the best lambda falls as n^(-1/4): slope within 0.1 ({world}, {draws} draws)": near(
            slope("best lambda over n", world, draws), -0.25, 0.1
        )
        for world, draws in SYSTEMS
    },
    "its excess falls faster than n^(-1/4): slope below -0.35 (paths, many draws)": below(
        slope("excess over n"), -0.35
    ),
    **{
        f"n = {n}: the best lambda saves over a quarter of the excess, without perturbation "
        f"({world}, {draws} draws)": above(of_n("gain", n, world, draws), 0.25)
        for world, draws in SYSTEMS
        for n in (25, 400)
    },
    **{
        f"n = {n}: some lambda lowers the excess of policies that decide with their perturbation "
        f"({world}, many draws)": study.some(
            above(saved(smoothing, n, world), 0) for smoothing in LAMBDAS
        )
        for world in (PATHS, VEHICLES)
        for n in (25, 400)
    },
    **{
        f"n = {n}: learned decisions have less excess than predict then optimise ({world})": below(
            of_n("more_than_predicted", n, world), 0
        )
        for world in (PATHS, VEHICLES)
        for n in (25, 400)
    },
    **{
        f"{objective} ends with fewer than 2 effective right paths of 3 ({scale} scores)": below(
            right_paths(objective, scale), 2
        )
        for objective in (RETURN, GRPO)
        for scale in RADII
    },
    **{
        f"ips_grpo ends with over 2.8 effective right paths of 3 ({scale} scores)": above(
            right_paths(IPS, scale), 2.8
        )
        for scale in RADII
    },
    "free scores outgrow the perturbation: |s| above 4 lambda under GRPO": above(
        right_paths(GRPO, name="length"), 4
    ),
}
HEADLINE = study.Headline(
    subject="Molecules and combinatorial outcomes",
    claim=(
        "The best noise on the scores of a combinatorial decision falls as n^(-1/4), as "
        "bias and error balance."
    ),
    scope="shortest paths and vehicle schedules",
    decided_by=(
        "the bias is of order lambda: slope below 1.5 (paths)",
        "the best lambda falls as n^(-1/4): slope within 0.1 (paths, many draws)",
        "the best lambda falls as n^(-1/4): slope within 0.1 (vehicles, many draws)",
    ),
)
SYSTEM = ("world", "draws")
TABLE = study.one_below_the_other(
    study.Table((), "slopes", {"kind": "exponents"}, SYSTEM),
    study.Table((), "from n instances", {"kind": "of n"}, (*SYSTEM, "n")),
    study.Table((), "at the best policy", {"kind": "in the pool"}, (*SYSTEM, "smoothing")),
    study.Table((), OUTCOMES, {"world": OUTCOMES}, ("objective", "scale")),
)
LEARNED = {"world": PATHS, "draws": MANY, "kind": "learned"}
WITHOUT = Line("excess", "smoothing", "n", LEARNED)
WITH = Line("excess_perturbed", "smoothing", "n", LEARNED)
FIGURE = Panels(
    [
        Panel([WITHOUT], "decided without perturbation", "lambda", "excess risk", yscale="log"),
        Panel([WITH], "decided with it", "lambda", "excess risk", yscale="log"),
        Panel(
            [Line("best_lambda", "n", "draws", {"world": PATHS, "kind": "of n"})],
            "best lambda",
            "n",
            "lambda",
            xscale="log2",
            yscale="log",
        ),
    ]
)
