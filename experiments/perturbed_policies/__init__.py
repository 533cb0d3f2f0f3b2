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
          scores trained from 0 by REINFORCE, GRPO, IPS-GRPO, free or of length at most 2 lambda.
Command   python -m experiments.perturbed_policies
Time      demo two CPU minutes, smoke ten seconds; paper, not run, many hours.
Expected  Slopes over lambda for paths, vehicles: crossing 0.87, 0.87, bias 1.89 [1.81, 1.99], 1.77 [1.66, 1.88],
          variance -0.84 [-0.90, -0.78], -0.67. Without perturbation, 32 draws: the best lambda is 0.48 at n = 25, 0.35
          at 400, slope -0.18 [-0.32, -0.03], vehicles 0.21, 0.12, -0.21 [-0.28, -0.15]: near -1/4, and as near -1/5. It
          saves 0.57 of the excess at n = 25, 0.47 at 400, vehicles 0.40, 0.27. 2 draws: slope 0.01 [-0.09, 0.15], 0.16
          and 0.09 saved: the noise of draws grows with lambda. The excess falls as n^(-0.57) [-0.64, -0.50]. Decided
          with perturbation, no lambda is better than none: the bias, 3 lambda^2, takes all that is saved. Predict then
          optimise stays at 0.10; learned decisions have 0.033, 0.0070. Of 3 right paths REINFORCE keeps 1.38 [1.26,
          1.50], GRPO 1.35, IPS-GRPO 2.99; bounded 1.59, 1.56, 2.95 at a reward of 0.69, 0.69, 0.60: noise that cannot
          be undone costs reward, and does not save the paths.
Doubt     The classes have one parameter and are searched exactly. Where gradients are followed, or classes are large,
          the bound's 1 / lambda may be real. A pool is a small population, whose roughness moves the best lambda at n =
          400, a tenth of it. Claims and sizes were set after trials with two of the seeds.
Smoke     python -m experiments.perturbed_policies --preset=smoke
"""

import dataclasses
import functools
import math
from collections.abc import Iterator

from experiments.perturbed_policies import perturbed_outcomes
from experiments.perturbed_policies.perturbed_paths import PATHS, POWER_LAW, VEHICLES, Pools
from ipsrl import study
from ipsrl.fields import Range, at_least, in_range, positive
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


def are_smoothings(numbers: tuple[float, ...]) -> bool:
    least, most = POWER_LAW
    increase = list(numbers) == sorted(set(numbers))
    fitted = [number for number in numbers if least <= number <= most]
    return increase and numbers[0] == 0 and numbers[-1] < math.inf and len(fitted) >= 2


SMOOTHINGS = Range(
    f"be increasing numbers, the first one 0, and at least two of them from {POWER_LAW[0]:g} to {POWER_LAW[1]:g}",
    are_smoothings,
    of_whole=True,
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`seeds` draw pools of `size` instances, from which `sets` training sets of each of the `samples` are drawn.

    `draws` are perturbations of each instance, few and many; vehicles have many, and pools of a fourth of the size.
    """

    seeds: tuple[int, ...] = study.seeds(tuple(range(6)), least=2)
    size: int = at_least(8, 4096)
    angles: int = at_least(3, 97)
    draws: tuple[int, ...] = rising((2, 32), least=2, most=10_000)
    smoothings: tuple[float, ...] = in_range(SMOOTHINGS, (0.0, *LAMBDAS))
    samples: tuple[int, ...] = rising((25, 50, 100, 200, 400), least=1, most=1_000_000)
    sets: int = positive(200)
    trained_seeds: tuple[int, ...] = study.seeds(tuple(range(32)), least=2)
    steps: int = positive(2000)
    learning_rate: float = positive(0.1)

    def __post_init__(self):
        super().__post_init__()
        if len(self.draws) != 2:
            raise ValueError(f"--draws={self.draws} must be two numbers, few draws and many")
        if len(self.samples) < 2:
            raise ValueError(
                f"--samples={self.samples} has one size, but slopes over n need two or more"
            )


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
    "paper": Settings(
        seeds=tuple(range(32)),
        size=65_536,
        angles=193,
        draws=(2, 64),
        samples=(50, 100, 200, 400, 800, 1600, 3200),
        sets=500,
        trained_seeds=tuple(range(128)),
        steps=10_000,
    ),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
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
    for objective in OBJECTIVES:
        for scale, radius in RADII.items():
            trained = functools.partial(
                perturbed_outcomes.trained,
                objective,
                settings.trained_seeds,
                settings.steps,
                1.0,
                settings.learning_rate,
                radius,
            )
            yield study.Curve({"world": OUTCOMES, "objective": objective, "scale": scale}, trained)


def slope(name: str, world: str = PATHS, draws: str = MANY) -> study.Number:
    return study.final(name, world=world, draws=draws, kind="exponents")


def of_n(name: str, n: int, world: str = PATHS, draws: str = MANY) -> study.Number:
    return study.final(name, world=world, draws=draws, kind="of n", n=n)


def saved(smoothing: float, n: int, world: str) -> study.Number:
    """What a perturbation takes off the excess of learned policies that decide with it."""
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
SLOPES = (
    "crossing over lambda",
    "bias over lambda",
    "variance over lambda",
    "best lambda over n",
    "excess over n",
)
OF_N = ("best_lambda", "least_excess", "gain", "gain_perturbed", "predicted_excess")
TABLE = study.one_below_the_other(
    study.Table(SLOPES, "slopes", {"kind": "exponents"}, ("world", "draws")),
    study.Table(OF_N, "from n instances", {"kind": "of n"}, ("world", "draws", "n")),
    study.Table(
        ("bias", "crossing", "variance"),
        "at the best policy",
        {"kind": "in the pool"},
        ("world", "draws", "smoothing"),
    ),
    study.Table(
        ("reward", "effective", "length"), OUTCOMES, {"world": OUTCOMES}, ("objective", "scale")
    ),
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
