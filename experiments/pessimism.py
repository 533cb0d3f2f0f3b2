"""Pessimism in a learned model: does the worst distribution near the model's own bound values better than COMBO?

Claim     Lowering Q for the worst distribution within rho of where the policy goes in the model (DROMO) covers more of
          what data do not, than lowering it where the policy goes (COMBO): for some rho its value is a lower bound of
          the true one more often, at no lower return.
Paper     arXiv 2109.07275 (DROMO), 2102.08363 (COMBO), 2005.13239 (MOPO). Our reading, from DROMO's abstract: the ball
          is one of KL or chi-square divergence, and the rest is COMBO's critic (`ipsrl.offline.pessimism`).
Arms      No penalty; COMBO (rho = 0) and both balls with rho of 0.1, 0.5, 2, each with four weights beta; MOPO-like: a
          penalty on rewards over sqrt(1 + visits), four weights. The control of rho is beta: COMBO at its best weight.
          World (`worlds.half_a_map`): 10 x 10 cells, 2000 transitions that cover the left half, a model whose rewards
          are wrong by 0.1 on pairs without data. All exact but the data. Weights were set after trials.
Command   python -m experiments.pessimism
Time      demo two CPU minutes, smoke ten seconds; paper, not run, an estimated day.
Expected  Return at the start and share of 16 seeds in which Q bounds it: no penalty 0.00, 0; weight 0.03: COMBO 0.16,
          0; KL with rho 0.1, 0.5, 2: 0.34, 0.25; 0.83 [0.80, 0.86], 0.94; 0.41, 0.56; chi-square 0.33, 0.19; 0.84
          [0.82, 0.85], 0.81; 0.60, 0.69. COMBO at its best weight, 0.1, has 0.46 [0.43, 0.49] and bounds in all seeds:
          the ball costs less return, it bounds no more often. A weight of 0.01 is too small for any rho, of 0.3 too
          large, and rho = 2 is unstable: q may put a share on pairs that the policy hardly reaches, and the penalty q /
          w has no bound. The MOPO-like penalty, which counts visits, has 0.93 and bounds in all seeds, at Q too low by
          1.3. Without a penalty Q is too high by 2.3 on pairs with data, by 2.8 on others.
Doubt     A table has no function approximation: what data teach of visited pairs changes no others. Networks, where the
          model errs in ways that are not independent from pair to pair, may need the ball more, or less.
Smoke     python -m experiments.pessimism --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Iterator

from ipsrl import study
from ipsrl.fields import at_least, non_negative
from ipsrl.figures.layers import Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.offline.pessimism import Critic
from ipsrl.records.tidy import Records
from ipsrl.study.claims import above, all_of, any_of, difference, tuned
from ipsrl.study.worlds.half_a_map import runs

NONE, COMBO, KL, CHI, MOPO = "no penalty", "COMBO", "DROMO, KL", "DROMO, chi-square", "MOPO-like"
WEIGHTS, RADII, PENALTIES = (0.01, 0.03, 0.1, 0.3), (0.1, 0.5, 2.0), (0.03, 0.1, 0.3, 1.0)
BALLS = {KL: "kl", CHI: "chi_square"}
LITTLE = 0.05
"""Differences of returns and of shares of seeds that do not count."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`samples` is the number of transitions, `error` the standard deviation of guessed rewards."""

    seeds: tuple[int, ...] = study.seeds(tuple(range(16)), least=2)
    samples: int = at_least(1, 2000)
    error: float = non_negative(0.1)
    steps: int = at_least(1, 100)


PRESETS = {
    "smoke": Settings((0, 1), 200, steps=2),
    "demo": Settings(),
    "paper": Settings(tuple(range(256)), steps=1000),
}


def critics(steps: int) -> dict[tuple[str, float, float], Critic]:
    """(method, weight, rho) -> the critic."""
    found = {(NONE, 0.0, 0.0): Critic(steps=steps)}
    for weight in WEIGHTS:
        found[COMBO, weight, 0.0] = Critic(beta=weight, steps=steps)
        for method, ball in BALLS.items():
            for radius in RADII:
                found[method, weight, radius] = Critic(beta=weight, radius=radius, ball=ball, steps=steps)
    return found | {(MOPO, weight, 0.0): Critic(uncertainty=weight, steps=steps) for weight in PENALTIES}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for (method, weight, radius), critic in critics(settings.steps).items():
        compute = functools.partial(runs, critic, settings.seeds, settings.samples, settings.error)
        yield study.Curve({"method": method, "weight": weight, "radius": radius}, compute)


def of(method: str, weight: float = 0.0, radius: float = 0.0) -> dict:
    """The labels of an arm."""
    return {"method": method, "weight": weight, "radius": radius}


def better(method: str, weight: float, radius: float) -> study.Claim:
    """Whether it is a lower bound in more seeds than COMBO of this weight, at no lower return, but for `LITTLE`."""
    arms = of(method, weight, radius), of(COMBO, weight)
    parts = above(difference("valid", *arms), LITTLE), above(difference("return", *arms), -LITTLE)
    return lambda records: all_of(part(records) for part in parts)


def best(method: str, records: Records) -> dict:
    """The labels of the weight and radius whose mean return is largest, on the same seeds."""
    radii = records.where(method=method).distinct("radius")
    each = [tuned(records, "return", along="weight", method=method, radius=radius) for radius in radii]
    return max(each, key=lambda labels: records.mean("return", **labels), default={"method": method})


def at_best(value: str, method: str) -> study.Number:
    return lambda records: records.final(value, **best(method, records))


def valid(method: str) -> study.Number:
    """The share of seeds in which its value is a lower bound, at its best."""
    return lambda records: study.share("valid", **best(method, records))(records)


def gain(method: str, other: str, value: str = "return") -> study.Number:
    """A value of one method at its best less that of another at its own best, paired by seed."""
    return lambda records: difference(value, best(method, records), best(other, records))(records)


def for_some_radius(method: str, weight: float) -> study.Claim:
    parts = [better(method, weight, radius) for radius in RADII]
    return lambda records: any_of(part(records) for part in parts)


CLAIMS = {
    "without a penalty Q is over 0.5 too high on pairs without data": above(study.final("unvisited", **of(NONE)), 0.5),
    **{f"{method}, weight {weight:g}: for some rho a bound in over 0.05 more seeds than COMBO, at no lower return":
        for_some_radius(method, weight) for method in BALLS for weight in WEIGHTS},
    **{f"{method}: at its best weight and rho it returns over 0.05 more than COMBO at its best weight":
        above(gain(method, COMBO), LITTLE) for method in BALLS},
    **{f"{method}: at its best weight and rho it is a bound in over 0.05 more seeds than COMBO at its best":
        above(gain(method, COMBO, "valid"), LITTLE) for method in BALLS},
    "KL at its best returns over 0.05 more than chi-square at its best": above(gain(KL, CHI), LITTLE),
    "the MOPO-like penalty at its best returns over 0.05 more than DROMO (KL) at its best":
        above(gain(MOPO, KL), LITTLE),
    "more is not better: DROMO (KL) with weight 0.3 and rho 2 returns over 0.05 less than at its best": lambda records:
        above(difference("return", best(KL, records), of(KL, WEIGHTS[-1], RADII[-1])), LITTLE)(records),
    "COMBO at its best weight is a lower bound in over three of four seeds": above(valid(COMBO), 0.75),
}  # fmt: skip
NUMBERS = {
    f"{value}, {method} at its best": at_best(value, method)
    for value in ("return", "gap", "visited", "unvisited") for method in (COMBO, *BALLS, MOPO)
} | {f"valid, {method} at its best": valid(method) for method in (COMBO, *BALLS, MOPO)} | {
    f"return, {method}, weight 0.03, rho {radius:g}": study.final("return", **of(method, 0.03, radius))
    for method in BALLS for radius in RADII
} | {
    f"valid, {method}, weight 0.03, rho {radius:g}": study.share("valid", **of(method, 0.03, radius))
    for method in BALLS for radius in RADII
} | {
    f"{value}, {NONE}": study.final(value, **of(NONE)) for value in ("return", "gap", "visited", "unvisited")
}  # fmt: skip
TABLE = study.Table(("return", "valid", "gap", "visited", "unvisited", "below"))


def panel(value: str, ylabel: str) -> Panel:
    lines = [Line(value, "weight", "method", {"method": COMBO}), Line(value, "weight", "method", {"method": MOPO})]
    lines += [Line(value, "weight", "method", {"method": method, "radius": 0.5}) for method in BALLS]
    return Panel([*lines, Level(0.0)], "rho = 0.5", "weight of the penalty", ylabel, xscale="log")


FIGURE = Panels([
    panel("return", "true return"), panel("gap", "Q above the true value, at the start"),
    panel("unvisited", "Q above the true one, pairs without data"),
])  # fmt: skip

if __name__ == "__main__":
    study.main(__name__)
