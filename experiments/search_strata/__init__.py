"""Should a search agent's answers be compared only with those of as many look-ups (Stratified GRPO)?

Claim     One baseline for searches of different length is biased; normalising inside strata of equally many look-ups,
          blended with GRPO's normalisation, gives more reward and more look-ups.
Paper     Stratified GRPO, arXiv 2510.06214: up to +11.3 points over GRPO, and more search calls. Ours: the three
          regimes, the sentences with their margins, the two strata without noise, IPS over strata and the placebo.
Arms      GRPO; SAN alone (alpha 1); blends with alpha 0.4, 0.6, 0.8; a value baseline learned for each prompt, which is
          a running mean (there is no critic of states); IPS-GRPO whose outcomes are answers with their number of
          look-ups; placebo: the blend 0.8 with strata dealt out at random. World: `searchers`, eight
          questions in `search_agent` that one look-up answers, or two or three; a prior that mostly knows the short
          way, and of the long ones nothing. A right answer is worth 1 (`equal`), more after more look-ups (`longer`:
          0.4, 0.7, 1) or less (`shorter`: 1, 0.7, 0.4). Equally many answers, token sums, the best of five rates by
          the reward of other seeds. Exact: expected updates on two strata, one of which can reach only half.
Command   python -m experiments.search_strata
Time      demo three CPU minutes, smoke 15 CPU seconds; paper, not run, an hour.
Expected  Five seeds, last reward (and share of long searches): `equal` all 0.997 or more, GRPO (0.05 [0.001, 0.11]),
          blends (0.05 to 0.08), SAN (0.30), IPS over strata (0.58); `longer` GRPO 0.78 (0.70), blends 0.75 to 0.76,
          SAN 0.67 (0.49), IPS 0.72 [0.63, 0.81]; `shorter` GRPO and blends 1.00, SAN 0.82, IPS 0.93. So blends are like
          GRPO; at rates up to 256 they were below it in `longer`, 0.46 to 0.48 against 0.57, as their steps between
          strata are shorter. SAN keeps long searches and trains them, but exactly never moves between two strata (drift
          0; GRPO 0.070, a blend 1 - alpha of that), and pays for it where strata differ.
Doubt     Most arms still do best at the largest rate, though `equal` and `shorter` leave no more to gain. Tables share
          nothing between states, and one graph is asked by all seeds; a model whose long and short searches share their
          skill would train the one with the other.
Smoke     python -m experiments.search_strata --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Iterator

from experiments.search_strata import searchers as world
from experiments.search_strata.searchers import (
    BLENDS,
    EQUAL,
    GRPO,
    IPS,
    LONGER,
    NAMES,
    SAN,
    SHORTER,
    WORTH,
)
from ipsrl import study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below, close

EXACT, SAMPLED = "exact", "sampled"
MARGIN, MORE = (
    0.02,
    0.05,
)  # Differences of reward, and of the share of long searches, that do not count.


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """A batch has a group for each of eight prompts; `updates` and `exact_rate` are of the two strata."""

    arms: tuple[str, ...] = study.selecting(one_of(*NAMES, default=tuple(NAMES)))
    regimes: tuple[str, ...] = study.selecting(one_of(*WORTH, default=tuple(WORTH)))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
    learning_rates: tuple[float, ...] = positive((16.0, 64.0, 256.0, 1024.0, 4096.0))
    group_size: int = at_least(2, 16)
    intervals: int = positive(5)
    steps_between: int = positive(12)
    updates: int = at_least(2, 200)
    exact_rate: float = positive(4.0)


PRESETS = {
    "smoke": Settings(
        (SAN,), (EQUAL,), (0, 1), (64.0,), group_size=4, intervals=1, steps_between=2, updates=4
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), steps_between=200),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for arm in settings.arms:
        if arm not in world.ADVANTAGES:  # which carry a state, or sample
            yield study.Curve({"part": EXACT, "arm": arm}, functools.partial(exact, arm, settings))
        for regime in settings.regimes:
            yield study.Curve(of(arm, regime), functools.partial(sampled, arm, regime, settings))


def exact(arm: str, settings: Settings) -> study.Points:
    """On two strata, up to groups of eight, of which all are enumerated."""
    objective, group = world.objective_of(arm, "first_token"), min(settings.group_size, 8)
    values = world.two_strata(objective, settings.updates, group, settings.exact_rate)
    return study.Points(
        range(settings.updates + 1), {name: each[None] for name, each in values.items()}
    )


def sampled(arm: str, regime: str, settings: Settings) -> study.Points:
    every, steps = settings.steps_between, settings.intervals * settings.steps_between
    how = settings.group_size, settings.learning_rates, settings.seeds, every
    found = world.runs(arm, settings.regimes, steps, *how)[regime]
    return study.Points(range(0, steps + 1, every), found, settings.seeds)


def of(arm: str, regime: str) -> dict[str, str]:
    """The labels of a sampled curve."""
    return {"part": SAMPLED, "arm": arm, "regime": regime}


def more(arm: str, regime: str, than: str = GRPO, value: str = "reward") -> study.Number:
    """By how much a value at the end is above that of another arm, paired by seed."""
    return study.difference(value, of(arm, regime), of(than, regime))


WHERE = {
    EQUAL: "where all searches are worth the same,",
    LONGER: "where longer searches are worth more,",
    SHORTER: "where longer searches are worth less,",
}
BETTER, WORSE = (
    "ends with over 0.02 more reward than GRPO",
    "ends with over 0.02 less reward than GRPO",
)
KEPT = "ends with at most 0.02 less reward than GRPO"
OFTEN = "makes two or three look-ups more often than GRPO, by over 0.05 of its answers"
CLAIMS = {
    "exactly, SAN alone moves no probability between two strata of different value": lambda records: (
        close(study.final("drift", part=EXACT, arm=SAN)(records), 0.0, 1e-6)
    ),
    "exactly, SAN alone chooses the better of two strata in under 0.6 of its answers": below(
        study.final("better", part=EXACT, arm=SAN), 0.6
    ),
    **{
        f"exactly, {NAMES[arm]} chooses the better of two strata in over 0.95 of its answers": above(
            study.final("better", part=EXACT, arm=arm), 0.95
        )
        for arm in (GRPO, *BLENDS)
    },
    **{f"{WHERE[EQUAL]} {NAMES[arm]} {BETTER}": above(more(arm, EQUAL), MARGIN) for arm in BLENDS},
    **{
        f"{WHERE[EQUAL]} {NAMES[arm]} {OFTEN}": above(more(arm, EQUAL, value="long"), MORE)
        for arm in (*BLENDS, SAN, IPS)
    },
    **{
        f"{WHERE[regime]} {NAMES[arm]} {KEPT}": above(more(arm, regime), -MARGIN)
        for regime in (LONGER, SHORTER)
        for arm in BLENDS
    },
    **{
        f"{WHERE[LONGER]} {NAMES[arm]} {BETTER}": above(more(arm, LONGER), MARGIN)
        for arm in (*BLENDS, IPS)
    },
    **{
        f"{WHERE[regime]} {NAMES[SAN]} {WORSE}": below(more(SAN, regime), -MARGIN)
        for regime in WORTH
    },
    **{
        f"{WHERE[regime]} {NAMES[IPS]} {KEPT}": above(more(IPS, regime), -MARGIN)
        for regime in (EQUAL, SHORTER)
    },
    f"{WHERE[EQUAL]} the blend 0.8 ends with over 0.02 more reward than a running baseline": above(
        more("blend_08", EQUAL, world.VALUE), MARGIN
    ),
    f"placebo: {WHERE[LONGER]} the blend 0.8 ends with over 0.02 more reward than with shuffled strata": above(
        more("blend_08", LONGER, world.SHUFFLED), MARGIN
    ),
}
SHOWN = {
    "reward": "reward",
    "long": "share of two or three look-ups",
    "long_skill": "right among these",
}
NUMBERS = {
    f"{shown}, {regime}, {NAMES[arm]}": study.final(value, **of(arm, regime))
    for value, shown in SHOWN.items()
    for regime in WORTH
    for arm in NAMES
} | {
    f"exact {value}, {NAMES[arm]}": study.final(value, part=EXACT, arm=arm)
    for value in ("drift", "better")
    for arm in NAMES
    if arm not in world.ADVANTAGES
}
COLUMNS = (
    "reward",
    *(f"look_ups_{number}" for number in range(4)),
    "long_skill",
    "behaviours",
    "learning_rate",
)
TABLE = study.one_below_the_other(
    study.Table(COLUMNS, "{regime}", {"part": SAMPLED}, each="regime"),
    study.Table(("drift", "better", "reward"), "two strata, exact", {"part": EXACT}),
)
TITLES = {EQUAL: "equal worth", LONGER: "longer is worth more", SHORTER: "longer is worth less"}
PANELS = [
    Panel(
        [Line(value, by="arm", where=where)],
        title,
        "updates",
        SHOWN.get(value, "share of the better stratum"),
    )
    for value, of_exact in (("reward", "better"), ("long", "reward"))
    for value, where, title in (
        *((value, {"part": SAMPLED, "regime": regime}, title) for regime, title in TITLES.items()),
        (of_exact, {"part": EXACT}, "two strata, exact"),
    )
]
FIGURE = Panels(PANELS, (20, 8.5), columns=4)
