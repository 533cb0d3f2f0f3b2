"""Pessimism in a learned model: does the worst distribution near the model's own bound values better than COMBO?

Claim     Lowering Q for the worst distribution within rho of where the policy goes in the model (DROMO) covers more of
          what data do not, than lowering it where the policy goes (COMBO): for some rho its value is a lower bound of
          the true one more often, at no lower return.
Paper     arXiv 2109.07275 (DROMO), 2102.08363 (COMBO), 2005.13239 (MOPO). Our reading, from DROMO's abstract: the ball
          is one of KL or chi-square divergence, and the rest is COMBO's critic (`experiments.pessimism.critic`).
Arms      No penalty; COMBO (rho = 0) and both balls with rho of 0.1, 0.5, 2, each with four weights beta; MOPO-like: a
          penalty on rewards, four weights. The control of rho is beta: COMBO at its best weight. Table
          (`half_a_map`): 10 x 10 cells, 2000 transitions that cover the left half, a model whose rewards are
          wrong by 0.1 on pairs without data, MOPO by 1 / sqrt(1 + visits). All exact but the data. Networks
          (`half_a_square`): a map of smooth rewards and wind for each seed, 100 transitions of its left half, an
          ensemble of four MLPs as the model, whose disagreement is MOPO's, an MLP as Q, the KL ball. Placebo: 2000
          transitions of the whole map. The best weight and rho for a seed have the highest mean return of other seeds.
          Weights and numbers of transitions were set after trials with other seeds.
Command   python -m experiments.pessimism
Time      demo three and a half CPU minutes, smoke 18 CPU seconds; paper, not run, an estimated day.
Expected  Table, at the second smallest weight: COMBO returns 0.06 and bounds the value in no seed, the KL ball with the
          middle rho returns 0.77 [0.63, 0.90] and bounds it in 0.88 of the seeds. COMBO at its best weight bounds as
          often, and returns 0.45 [0.38, 0.52]: the ball may cost less return (undecided), it bounds no more often. The
          smallest weight is too small for any rho, the largest costs too much, and the largest rho is unstable: q may
          put a share on pairs that the policy hardly reaches, and the penalty q / w has no bound. The MOPO-like penalty
          returns most and bounds in all seeds, at a Q that is far too low. Networks: no penalty returns as much as any,
          at a Q that is hardly too high; COMBO and DROMO bound more often and return less.
Doubt     A table has no function approximation: what data teach of visited pairs changes no others. Networks have few
          data because with many a trial showed little to be pessimistic about; the placebo has both more data and data
          everywhere, so that it does not tell these apart. There the ball costs return as well: its policy goes where
          uniform data seldom are. Returns differ much from map to map, and on ours there is little to gain. A map with
          a trap where data end would tell more.
Smoke     python -m experiments.pessimism --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from experiments.pessimism import half_a_map, half_a_square
from experiments.pessimism.critic import Pessimism
from ipsrl import study
from ipsrl.checking.fields import at_least, non_negative
from ipsrl.figures.layers import Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, among, every, near, some
from ipsrl.study.tuning import of_best

NONE = "no penalty"
COMBO = "COMBO"
KL = "DROMO, KL"
CHI = "DROMO, chi-square"
MOPO = "MOPO-like"
TABULAR = "table"
NETWORKS = "networks"
PLACEBO = "networks, data everywhere"
WEIGHTS = (0.01, 0.03, 0.1, 0.3)
RADII = (0.1, 0.5, 2.0)
BALLS = {KL: "kl", CHI: "chi_square"}
BALLS_OF = {TABULAR: (KL, CHI), NETWORKS: (KL,), PLACEBO: (KL,)}
SMALLER, LARGER = (0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0, 3.0)
PENALTIES = {TABULAR: SMALLER, NETWORKS: LARGER, PLACEBO: LARGER}
"""Weights of the MOPO-like penalty."""
EVERYWHERE = 20
LITTLE = 0.05
"""Differences of returns and of shares of seeds that do not count."""
BEST = {"score": "return", "among": ("weight", "radius")}
"""The best weight and radius of a method for a seed have the largest mean return of other seeds."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`samples` is the number of transitions, `error` the standard deviation of guessed rewards.

    `transitions` and `updates` are those of networks; the placebo has `EVERYWHERE` times as many transitions.
    """

    seeds: tuple[int, ...] = study.seeds(range(100, 116), least=2)
    samples: int = at_least(1, 2000)
    error: float = non_negative(0.1)
    steps: int = at_least(1, 100)
    transitions: int = at_least(1, 100)
    updates: int = at_least(1, 1000)


PRESETS = {
    "smoke": Settings((0, 1), 200, steps=2, updates=2),
    "demo": Settings(),
    "paper": Settings(tuple(range(256)), steps=1000, updates=10_000),
}


def of(method: str, weight: float = 0.0, radius: float = 0.0) -> dict[str, Any]:
    """The labels of an arm."""
    return {"method": method, "weight": weight, "radius": radius}


def critics(world: str, **kept: float) -> Iterator[tuple[dict[str, Any], Pessimism]]:
    """The labels and the critic of each arm; `kept` are fields of all."""
    yield of(NONE), Pessimism(**kept)
    for weight in WEIGHTS:
        yield of(COMBO, weight), Pessimism(beta=weight, **kept)
        for method in BALLS_OF[world]:
            for radius in (0.5,) if world == PLACEBO else RADII:
                critic = Pessimism(beta=weight, radius=radius, ball=BALLS[method], **kept)
                yield of(method, weight, radius), critic
    for weight in PENALTIES[world]:
        yield of(MOPO, weight), Pessimism(uncertainty=weight, **kept)


def curves(settings: Settings) -> study.Curves:
    number = settings.transitions
    of_networks = {"steps": settings.updates, "discount": 0.9, "rate": 30.0}
    table = (settings.samples, settings.error)
    worlds = {
        TABULAR: (half_a_map.runs, table, {"steps": settings.steps}),
        NETWORKS: (half_a_square.runs, (number, 0.5), of_networks),
        PLACEBO: (half_a_square.runs, (EVERYWHERE * number, 1.0), of_networks),
    }
    for world, (runs, data, kept) in worlds.items():
        for labels, critic in critics(world, **kept):
            compute = functools.partial(runs, critic, settings.seeds, *data)
            yield study.Curve({"world": world} | labels, compute)


def returned(**labels: Any) -> study.Number:
    return study.final("return", **labels)


def bounded(**labels: Any) -> study.Number:
    """The share of seeds in which the value of a policy is not above the true one."""
    return study.share("valid", **labels)


def best(method: str, number: Callable[..., study.Number] = returned) -> study.Number:
    """A number of a method at its best weight and radius."""
    return study.Best(number(method=method), **BEST)


def better(method: str, weight: float, radius: float) -> study.Claim:
    """Whether it is a lower bound in more seeds than COMBO of this weight, at no lower return, but for `LITTLE`."""
    arm, combo = of(method, weight, radius), of(COMBO, weight)
    return every(
        [
            above(bounded(**arm), bounded(**combo), LITTLE),
            above(returned(**arm), returned(**combo), -LITTLE),
        ]
    )


SURER = "for some rho a bound in over 0.05 more seeds than COMBO, at no lower return"
EARNS = "at its best weight and rho it returns over 0.05 more than COMBO at its best weight"
BOUNDS = "at its best weight and rho it is a bound in over 0.05 more seeds than COMBO at its best"


def in_each(world: str) -> dict[str, study.Claim]:
    """Claims of tables, and of networks."""
    balls = BALLS_OF[world]
    found = {
        **{
            f"{method}, weight {weight:g}: {SURER}": some(
                better(method, weight, radius) for radius in RADII
            )
            for method in balls
            for weight in WEIGHTS
        },
        **{
            f"{method}: {sentence}": above(best(method, number), best(COMBO, number), LITTLE)
            for sentence, number in ((EARNS, returned), (BOUNDS, bounded))
            for method in balls
        },
        "the MOPO-like penalty at its best returns over 0.05 more than DROMO (KL) at its best": above(
            best(MOPO), best(KL), LITTLE
        ),
        "more is not better: DROMO (KL) with weight 0.3 and rho 2 returns over 0.05 less than at its best": above(
            best(KL), returned(**of(KL, 0.3, 2.0)), LITTLE
        ),
        "COMBO at its best weight is a lower bound in over three of four seeds": above(
            best(COMBO, bounded), 0.75
        ),
    }
    return {f"{world}: {sentence}": among(claim, world=world) for sentence, claim in found.items()}


def without_penalty(value: str, world: str) -> study.Number:
    return study.final(value, world=world, **of(NONE))


CLAIMS = {
    "table: without a penalty Q is over 0.5 too high on pairs without data": above(
        without_penalty("unvisited", TABULAR), 0.5
    ),
    **in_each(TABULAR),
    "table: KL at its best returns over 0.05 more than chi-square at its best": among(
        above(best(KL), best(CHI), LITTLE), world=TABULAR
    ),
    "networks: without a penalty the value of the policy is over 0.05 too high": above(
        without_penalty("gap", NETWORKS), LITTLE
    ),
    "networks: without a penalty it is over 0.05 higher above the true one than with many data everywhere": above(
        without_penalty("gap", NETWORKS), without_penalty("gap", PLACEBO), LITTLE
    ),
    **{
        f"networks: {method} at its best returns over 0.05 more than no penalty": among(
            above(best(method), best(NONE), LITTLE), world=NETWORKS
        )
        for method in (COMBO, KL, MOPO)
    },
    **in_each(NETWORKS),
    **{
        f"placebo, data everywhere: {method} at its best changes the return by less than 0.05": among(
            near(best(method), best(NONE), LITTLE), world=PLACEBO
        )
        for method in (COMBO, KL, MOPO)
    },
}
HEADLINE = study.Headline(
    subject="Theories next door",
    claim=(
        "The worst distribution near the model's (DROMO) bounds values more often than COMBO,"
        " at no lower return."
    ),
    scope="a grid world in a table, and a square with networks",
    decided_by=(
        f"{TABULAR}: {KL}, weight 0.03: {SURER}",
        f"{TABULAR}: {KL}: {BOUNDS}",
        f"{NETWORKS}: {KL}: {BOUNDS}",
    ),
)
VALUES = ("return", "valid", "gap", "visited", "unvisited", "below")
TABLE = study.one_below_the_other(
    study.Table(VALUES, "{world}", each="world"),
    of_best(
        study.Table((*VALUES, "weight", "radius"), "{world}, at the best", each="world"), **BEST
    ),
)


def panel(value: str, ylabel: str, world: str) -> Panel:
    radii = {COMBO: 0.0, MOPO: 0.0} | dict.fromkeys(BALLS_OF[world], 0.5)
    lines = [
        Line(value, "weight", "method", {"world": world, "method": method, "radius": radius})
        for method, radius in radii.items()
    ]
    axes = {"xlabel": "weight of the penalty", "ylabel": ylabel, "xscale": "log"}
    return Panel([*lines, Level(0.0)], f"{world}, rho = 0.5", **axes)


YLABELS = {
    "return": "true return",
    "gap": "Q above the true value",
    "unvisited": "Q above the true one, no data",
}
PANELS = [panel(*row, world) for world in (TABULAR, NETWORKS) for row in YLABELS.items()]
FIGURE = Panels(PANELS, columns=3)
