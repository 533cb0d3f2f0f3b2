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
          0.4, 0.7, 1) or less (`shorter`: 1, 0.7, 0.4). Equally many answers, token sums, five rates, of which each
          half of the seeds has the best for the other half. Exact: expected updates on two strata, one of which can
          reach only half.
Command   python -m experiments.search_strata
Time      demo three CPU minutes, smoke 15 CPU seconds; paper, not run, an hour.
Expected  Share of long searches where all are worth the same: GRPO 0.05 [0.001, 0.11], SAN 0.30, IPS over strata 0.58,
          blends as GRPO; all are as right. Where longer ones are worth more no arm is shown to have more reward than
          GRPO, nor blends to differ from it. SAN keeps long searches and trains them, but exactly never moves between
          two strata (GRPO drifts by 0.070, a blend by less), and pays for it where shorter ones are worth more.
Doubt     Most arms still do best at the largest rate, though `equal` and `shorter` leave no more to gain. Tables share
          nothing between states, and one graph is asked by all seeds; a model whose long and short searches share their
          skill would train the one with the other.
Smoke     python -m experiments.search_strata --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping

from experiments.search_agents import tables
from experiments.search_strata.searchers import (
    ADVANTAGES,
    BLENDS,
    EQUAL,
    GRPO,
    IPS,
    LONGER,
    NAMES,
    SAN,
    SHORTER,
    SHUFFLED,
    VALUE,
    WORTH,
    objective_of,
    trained,
    two_strata,
)
from ipsrl import study
from ipsrl.checking.fields import any_of, at_least, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below, near
from ipsrl.study.tuning import of_best

EXACT, SAMPLED = "exact", "sampled"
MARGIN = 0.02
"""A difference of rewards that does not count."""


@dataclasses.dataclass(frozen=True)
class Settings(tables.Settings):
    """`updates` and `exact_rate` are of the two strata."""

    arms: tuple[str, ...] = study.selecting(any_of(NAMES))
    regimes: tuple[str, ...] = study.selecting(any_of(WORTH))
    learning_rates: tuple[float, ...] = positive((16.0, 64.0, 256.0, 1024.0, 4096.0))
    intervals: int = positive(5)
    steps_between: int = positive(12)
    updates: int = at_least(2, 200)
    exact_rate: float = positive(4.0)


PRESETS = {
    "smoke": Settings(arms=(SAN,), regimes=(EQUAL,), updates=4, **tables.SMOKE),
    "demo": Settings(),
    "paper": Settings(**tables.PAPER),
}


def curves(settings: Settings) -> study.Curves:
    for arm in settings.arms:
        # The advantages of the others carry a state, or sample.
        if arm not in ADVANTAGES:
            yield study.Curve({"part": EXACT, "arm": arm}, functools.partial(exact, arm, settings))
        for regime, rate in itertools.product(settings.regimes, settings.learning_rates):
            labels = of(arm, regime) | {"learning_rate": rate}
            compute = functools.partial(sampled, arm, regime, rate, settings)
            yield study.Curve(labels, compute)


def exact(arm: str, settings: Settings) -> study.Points:
    """Exact training on two strata: all groups, of up to eight answers, are enumerated."""
    objective, group = objective_of(arm, "first_token"), min(settings.group_size, 8)
    values = two_strata(objective, settings.updates, group, settings.exact_rate)
    return study.Points(range(settings.updates + 1), values)


def sampled(arm: str, regime: str, rate: float, settings: Settings) -> study.Points:
    """All seeds at one learning rate."""
    found = trained(objective_of(arm), regime, rate, settings)
    return study.Points(settings.records, found, settings.seeds)


def of(arm: str, regime: str) -> dict[str, str]:
    """The labels of a sampled curve, but for its learning rate."""
    return {"part": SAMPLED, "arm": arm, "regime": regime}


def more(arm: str, regime: str, than: str = GRPO, value: str = "reward") -> study.Number:
    """A value of one arm less that of another, paired by seed, each at its best learning rate."""
    return study.Best(study.difference(value, of(arm, regime), of(than, regime)), "reward")


def without_noise(value: str, arm: str) -> study.Number:
    return study.final(value, part=EXACT, arm=arm)


WHERE = {
    EQUAL: "where all searches are worth the same,",
    LONGER: "where longer searches are worth more,",
    SHORTER: "where longer searches are worth less,",
}


def each(
    ends: str,
    compared: Callable[[study.Number, float], study.Claim],
    by: float,
    arms: Mapping[str, Iterable[str]],
    value: str = "reward",
) -> dict[str, study.Claim]:
    """How a value of some arms of each regime compares with GRPO's, by sentence."""
    return {
        f"{WHERE[regime]} {NAMES[arm]} {ends}": compared(more(arm, regime, value=value), by)
        for regime, of_regime in arms.items()
        for arm in of_regime
    }


BLEND = "blend_08"
BETTER = "ends with over 0.02 more reward than GRPO"
WORSE = "ends with over 0.02 less reward than GRPO"
KEPT = "ends with at most 0.02 less reward than GRPO"
OFTEN = "makes two or three look-ups more often than GRPO, by over 0.05 of its answers"
CLAIMS = {
    "exactly, SAN alone moves no probability between two strata of different value": near(
        without_noise("drift", SAN), 0.0, 1e-6
    ),
    "exactly, SAN alone chooses the better of two strata in under 0.6 of its answers": below(
        without_noise("better", SAN), 0.6
    ),
    **{
        f"exactly, {NAMES[arm]} chooses the better of two strata in over 0.95 of its answers": above(
            without_noise("better", arm), 0.95
        )
        for arm in (GRPO, *BLENDS)
    },
    **each(BETTER, above, MARGIN, {EQUAL: BLENDS, LONGER: (*BLENDS, IPS)}),
    **each(OFTEN, above, 0.05, {EQUAL: (*BLENDS, SAN, IPS)}, value="long"),
    **each(KEPT, above, -MARGIN, {EQUAL: (IPS,), LONGER: BLENDS, SHORTER: (*BLENDS, IPS)}),
    **each(WORSE, below, -MARGIN, dict.fromkeys(WORTH, (SAN,))),
    f"{WHERE[EQUAL]} the blend 0.8 ends with over 0.02 more reward than a running baseline": above(
        more(BLEND, EQUAL, VALUE), MARGIN
    ),
    f"placebo: {WHERE[LONGER]} the blend 0.8 ends with over 0.02 more reward than with shuffled strata": above(
        more(BLEND, LONGER, SHUFFLED), MARGIN
    ),
}
HEADLINE = study.Headline(
    subject="Agents that search or talk",
    claim=(
        "Comparing answers only with those of as many look-ups, blended with GRPO, gives more"
        " reward and more look-ups."
    ),
    scope="a search agent in a table, three regimes of rewards",
    decided_by=(
        f"{WHERE[EQUAL]} {NAMES[BLEND]} {BETTER}",
        f"{WHERE[EQUAL]} {NAMES[BLEND]} {OFTEN}",
        f"{WHERE[LONGER]} {NAMES[BLEND]} {BETTER}",
    ),
)
LOOK_UPS = [f"look_ups_{number}" for number in range(4)]
COLUMNS = ("reward", *LOOK_UPS, "long", "long_skill", "behaviours", "learning_rate")
TABLES = (
    study.Table(COLUMNS, "{regime}", {"part": SAMPLED}, each="regime"),
    study.Table(("drift", "better", "reward"), "two strata, exact", {"part": EXACT}),
)
TABLE = of_best(study.one_below_the_other(*TABLES), "reward")
TITLES = {EQUAL: "equal worth", LONGER: "longer is worth more", SHORTER: "longer is worth less"}
AXES = {
    "reward": "reward",
    "long": "share of two or three look-ups",
    "better": "share of the better stratum",
}


def panel(value: str, title: str, **where: str) -> Panel:
    return Panel([Line(value, by="arm", where=where)], title, "updates", AXES[value])


PANELS = []
for of_runs, of_strata in (("reward", "better"), ("long", "reward")):
    PANELS += [panel(of_runs, TITLES[regime], part=SAMPLED, regime=regime) for regime in TITLES]
    PANELS.append(panel(of_strata, "two strata, exact", part=EXACT))
FIGURE = of_best(Panels(PANELS, (20, 8.5), columns=4), "reward")
