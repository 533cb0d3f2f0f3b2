"""A study without training, for tests of what all studies share; `PARABOLA` counts how often it computes a curve.

Claim     Squares grow faster than lines.
Paper     None: ours.
Command   python -m small_study
Time      no time at all, on
          any machine.
Smoke     python -m small_study --preset=smoke
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from ipsrl import study
from ipsrl.checking.fields import at_least
from ipsrl.figures.layers import Bars, HeatMap, Level, Line, Markers
from ipsrl.figures.panels import Panel, Panels

COMPUTED = []


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`powers` are exponents."""

    powers: tuple[float, ...] = study.selecting((1.0, 2.0))
    steps: int = at_least(2, 4)
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4))
    noisy: bool = True


PRESETS = {"smoke": Settings(steps=2), "demo": Settings(), "paper": Settings(seeds=tuple(range(9)))}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for power in settings.powers:
        yield study.Curve({"name": f"x^{power:g}", "power": power}, lambda power=power: points(power, settings))


def points(power: float, settings: Settings) -> study.Points:
    COMPUTED.append(power)
    steps = np.arange(settings.steps + 1)
    noise = np.array(settings.seeds)[:, None] / 100 if settings.noisy else 0.0
    values = {"height": steps**power + noise, "place": steps / 2, "word": "power"}
    return study.Points(steps, values, settings.seeds, {"path": steps**power})


HEIGHT = {power: study.final("height", power=power) for power in (1.0, 2.0, 3.0)}
CLAIMS = {
    "squares end higher": study.above(HEIGHT[2.0], HEIGHT[1.0]),
    "lines end higher": study.above(HEIGHT[1.0], HEIGHT[2.0]),
    "cubes end higher still": study.above(HEIGHT[3.0], HEIGHT[2.0]),
}
NUMBERS = {"square": HEIGHT[2.0], "cube": HEIGHT[3.0]}
PAPER = {"square": 16.0}
FIGURE = Panels(
    [
        Panel([Line("height", by="name"), Level(lambda s: s.steps, "{steps} steps")], title="{steps}", xscale="linear"),
        Panel([Markers("height", "place", by="name"), Line("place", by="name", dashed=True, named=False)]),
        Panel([Bars("height", by="name")]),
        Panel([HeatMap("height", "step", across="power", at_end=False)]),
    ]
)

if __name__ == "__main__":
    study.main(__name__)
