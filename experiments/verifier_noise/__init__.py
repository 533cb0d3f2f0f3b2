"""A verifier that errs: does only J, its true minus its false positive rate, decide where training goes?

Claim     Noise injects a false signal: true accuracy rises where J > 0 and falls where J < 0. If errors do not depend
          on the answer only J matters, however it comes about. A wrong outcome that is always accepted is a second
          optimum, even at a high average J. A cleaner verifier leaves fewer effective right outcomes.
Paper     arXiv 2601.04411 (J, collapse), 2605.02909 (systematic errors). That the update has the factor J is derived.
Arms      J from -0.4 to 1 by false negatives first, by false positives first, by both alike, under GRPO (with std), Dr.
          GRPO (without), IPS-GRPO. The hack: one wrong outcome, 5 to 50 % of the wrong answers at the start, is always
          accepted; placebo: random false positives of the J that the hack has at the start (later its J falls with its
          share of wrong answers). `experiments.verifier_corrections` corrects errors.
Command   python -m experiments.verifier_noise
Time      demo one CPU minute, smoke a fifth of one; paper, not run, an estimated ten.
Expected  GRPO ends at an accuracy of 0.009 where J is lowest and of 0.998 without errors; how errors come about changes
          its expected speed, not its direction. IPS-GRPO does not follow J: where J is clearly above zero it ends at
          0.98 by false negatives and 0.70 [0.68, 0.71] by false positives, and by these it still rises where J is below
          zero. A hack of a fifth of the wrong answers takes GRPO to 0.70 [0.56, 0.81], a larger one to almost nothing;
          random errors of the same J do not. GRPO keeps fewer right outcomes the cleaner the verifier is after equal
          updates, and as many at equal accuracy.
Doubt     A policy shared by prompts, where a hack spreads from prompts without right answers to others.
Smoke     python -m experiments.verifier_noise --preset=smoke

Three right outcomes share 0.3 of the probability at the start as 5 : 3 : 2, three wrong ones the rest. All arms sample
equally many answers. Expected updates are exact, over groups and noise; drift is their change of the true accuracy.
"""

import dataclasses
import functools
import itertools

import numpy as np

from experiments.verifiers.right_and_wrong import (
    ALWAYS,
    HACKED,
    RANDOM,
    START,
    drift_at,
    exact,
    policy,
    trained_on,
    vanishes,
)
from ipsrl import study
from ipsrl.checking.fields import at_least, positive
from ipsrl.dynamics.verifier_errors import WAYS, verifier_of
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study import above, at_each, below, every, final, near

NAMES = {"grpo": "GRPO", "dr_grpo": "Dr. GRPO", "ips_grpo": "IPS-GRPO"}
YOUDENS = (-0.4, -0.2, -0.1, 0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
CLEAR = 0.2
"""The least |J| at which training goes far enough to tell its direction."""
MOVED = 0.01
"""The least difference of accuracies that counts."""
FEWER = 0.05
"""The least difference of effective outcomes that counts."""
NEAR = (0.1, 0.95)
"""Accuracy and share of the hack of a policy near the second optimum."""


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """Expected updates are those at policies with these `accuracies`; `hacks` are shares of the wrong probability."""

    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    youdens: tuple[float, ...] = study.rising(YOUDENS, least=-1, most=1)
    accuracies: tuple[float, ...] = study.rising((0.1, 0.3, 0.6, 0.9), least=0.01, most=0.99)
    hacks: tuple[float, ...] = study.rising((0.05, 0.1, 0.2, 0.3, 0.5), least=0.01, most=0.99)
    seeds: tuple[int, ...] = study.seeds(range(32, 42), least=2)
    group_size: int = at_least(2, 8)
    steps: int = positive(2000)
    record_every: int = positive(50)


PRESETS = {
    "smoke": Settings(
        ("grpo",), (32, 33), 4, steps=100, youdens=(-0.4, 0.3, 1.0), accuracies=(0.3,), hacks=(0.1,)
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32, 96)), steps=20_000, record_every=200),
}


def curves(settings: Settings) -> study.Curves:
    size = settings.group_size
    for text, way in itertools.product(settings.objectives, WAYS):
        of_way = functools.partial(exact, text, way, settings.youdens, settings.accuracies, size)
        yield study.Curve({"kind": "exact", "objective": text, "way": way}, of_way, ["J", "start"])
        for youden in settings.youdens:
            labels = {"kind": "trained", "objective": text, "way": way, "J": youden}
            yield trained_on(verifier_of(youden, way), text, settings, labels)
    for text, (errors, verifier) in itertools.product(settings.objectives, HACKED.items()):
        labels = {"objective": text, "errors": errors}
        near_hack = functools.partial(drift_at, policy(*NEAR), text, verifier(NEAR[1]), size)
        yield study.Curve({"kind": "exact"} | labels, near_hack)
        for hack in settings.hacks:
            of_hack = {"kind": "trained", "hack": hack} | labels
            yield trained_on(verifier(hack), text, settings, of_hack, hack)


def wrong_signs(records: Records) -> int:
    """The number of pairs of a policy and J at which the exact drift has another sign than J."""
    rows = records.having("J")
    signs = np.sign(rows.column("drift").round(9))
    return int((signs != np.sign(rows.column("J"))).sum())


def follows_youden() -> study.Claim:
    """Whether accuracy ends above its start where J is high, and below where it is low, in each way."""
    rises = [
        above(final("accuracy", J=youden), START + MOVED) for youden in YOUDENS if youden >= CLEAR
    ]
    falls = [
        below(final("accuracy", J=youden), START - MOVED) for youden in YOUDENS if youden <= -CLEAR
    ]
    return at_each("way", every(rises + falls), kind="trained")


def ways_agree() -> study.Claim:
    """Whether accuracy ends alike at each J however it comes about, paired by seed."""
    ends = [final("accuracy", way=way) for way in WAYS]
    alike = [near(one, other, 0.05) for one, other in itertools.combinations(ends, 2)]
    return at_each("J", every(alike), kind="trained")


def second_optimum() -> study.Claim:
    """Whether the exact drift near the hack leads to it, and under random errors of the same J there away from it."""
    to_hack = below(final("drift", errors=ALWAYS), 0)
    away = above(final("drift", errors=RANDOM), 0)
    return study.among(every([to_hack, away]), kind="exact")


def hack_costs() -> study.Claim:
    ends = final("accuracy", errors=ALWAYS)
    return at_each("hack", below(ends, final("accuracy", errors=RANDOM), by=MOVED), kind="trained")


def falls_with_youden(value: str) -> study.Claim:
    return below(final(value, **BOTH, J=1.0), final(value, **BOTH, J=0.3), by=FEWER)


BOTH = {"kind": "trained", "way": "both"}
WRONG_SIGNS = study.Computed(
    "policies at which the exact drift has another sign than J", wrong_signs, {"kind": "exact"}
)
OF_EACH = {
    "the exact drift of true accuracy has the sign of J at every policy": below(WRONG_SIGNS, 1),
    f"trained at each |J| >= {CLEAR}, accuracy ends over {MOVED} above its start where J > 0, "
    "below where J < 0": follows_youden(),
    "only J matters: trained in three ways, accuracy ends within 0.05 at every J": ways_agree(),
    "near the hack the exact drift is below 0, under random errors of the J there "
    "above 0": second_optimum(),
    f"the hack ends over {MOVED} less accurate than random errors of its J at the start, "
    "at each share": hack_costs(),
    f"J = 1 leaves over {FEWER} fewer right outcomes than J = 0.3 "
    "after equal updates": falls_with_youden("effective"),
    f"J = 1 leaves over {FEWER} fewer right outcomes than J = 0.3 "
    "when accuracy first is 0.9": falls_with_youden("effective_at_equal"),
}
CLAIMS = {
    **{
        f"{name}: {sentence}": study.among(claim, objective=objective)
        for sentence, claim in OF_EACH.items()
        for objective, name in NAMES.items()
    },
    "Dr. GRPO: only J matters: the exact update is J times the one without errors": vanishes(
        "from_scaled", objective="dr_grpo"
    ),
    "GRPO: only J matters: the exact update has the direction without errors": vanishes(
        "turned", objective="grpo"
    ),
    "GRPO: only J matters: the exact update is the same in three ways": vanishes(
        "from_both", objective="grpo"
    ),
    "IPS-GRPO: only J matters: the exact update is the same in three ways": vanishes(
        "from_both", objective="ips_grpo"
    ),
}
HEADLINE = study.Headline(
    subject="Verifiers and reward models",
    claim=(
        "Where errors do not depend on the answer, only true minus false positive rate "
        "decides where training goes."
    ),
    scope="a bandit with three right and three wrong outcomes",
    decided_by=(
        "GRPO: the exact drift of true accuracy has the sign of J at every policy",
        "GRPO: only J matters: trained in three ways, accuracy ends within 0.05 at every J",
        (
            "GRPO: near the hack the exact drift is below 0, under random errors of the J"
            " there above 0"
        ),
    ),
)
GRPO = {"kind": "trained", "objective": "grpo"}
IPS = {"kind": "trained", "objective": "ips_grpo"}
MEASURED = ("accuracy", "effective", "effective_at_equal")
TABLE = study.one_below_the_other(
    study.Table(MEASURED, where={"kind": "trained"}, rows=("objective", "way", "J")),
    study.Table(MEASURED, where={"kind": "trained"}, rows=("objective", "errors", "hack")),
)
YOUDEN = "J, true minus false positive rate"
HELD = "true accuracy after training"
KEPT = "effective right outcomes"
DRIFT = Line("drift", "J", where={"kind": "exact", "way": "both", "start": START})
PANELS = [
    Panel([DRIFT], "errors of both kinds, at accuracy 0.3", YOUDEN, "exact drift of true accuracy"),
    Panel([Line("accuracy", "J", "way", IPS, at_end=True)], "IPS-GRPO", YOUDEN, HELD),
    Panel([Line("effective", "J", where=BOTH, at_end=True)], "errors of both kinds", YOUDEN, KEPT),
    Panel(
        [Line("accuracy", "hack", "errors", GRPO, at_end=True)],
        "GRPO",
        "share of the hack among wrong",
        HELD,
    ),
]
FIGURE = Panels(PANELS, columns=2)
