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
Expected  10 seeds. GRPO ends at an accuracy of 0.009, 0.973, 0.998 for J = -0.4, 0.1, 1; how errors come about changes
          its expected speed by up to 29 %, not its direction. IPS-GRPO does not follow J: at J = 0.3 it ends at 0.98 by
          false negatives and 0.70 [0.68, 0.71] by false positives, by these at J = -0.1 at 0.46, above its start. A
          hack of 20 % takes GRPO to 0.70 [0.56, 0.81], of 30 % to 0.07, random errors to 0.998, one of 5 % costs it
          0.002; IPS-GRPO ends at 0.75 at each share. GRPO keeps 1.18 right outcomes at J = 0.3 and 1.05 at 1 after
          equal updates, 1.66 and 1.70 at equal accuracy.
Doubt     A policy shared by prompts, where a hack spreads from prompts without right answers to others.
Smoke     python -m experiments.verifier_noise --preset=smoke

Three right outcomes share 0.3 of the probability at the start as 5 : 3 : 2, three wrong ones the rest. All arms sample
equally many answers. Expected updates are exact, over groups and noise; drift is their change of the true accuracy.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator

from experiments.verifiers import right_and_wrong as world
from experiments.verifiers.right_and_wrong import (
    ALWAYS,
    HACKED,
    RANDOM,
    drift_at,
    exact,
    policy,
    trained_on,
    vanishes,
)
from ipsrl import study
from ipsrl.dynamics.verifier_errors import WAYS, verifier_of
from ipsrl.fields import at_least, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records

NAMES = {"grpo": "GRPO", "dr_grpo": "Dr. GRPO", "ips_grpo": "IPS-GRPO"}
CLEAR, MOVED, FEWER = (
    0.2,
    0.01,
    0.05,
)  # The least |J| in training; smaller differences do not count.
START, NEAR = (
    0.3,
    (0.1, 0.95),
)  # The accuracy at the start; a policy near the second optimum, for `policy`.


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """Expected updates are those at policies with these `accuracies`; `hacks` are shares of the wrong probability."""

    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    youdens: tuple[float, ...] = study.rising(
        (-0.4, -0.2, -0.1, 0.0, 0.1, 0.3, 0.5, 0.7, 1.0), least=-1, most=1
    )
    accuracies: tuple[float, ...] = study.rising((0.1, 0.3, 0.6, 0.9), least=0.01, most=0.99)
    hacks: tuple[float, ...] = study.rising((0.05, 0.1, 0.2, 0.3, 0.5), least=0.01, most=0.99)
    seeds: tuple[int, ...] = study.seeds(tuple(range(32, 42)), least=2)
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


def curves(settings: Settings) -> Iterator[study.Curve]:
    size = settings.group_size
    for text, way in itertools.product(settings.objectives, WAYS):
        of_way = functools.partial(exact, text, way, settings.youdens, settings.accuracies, size)
        yield study.Curve({"kind": "exact", "objective": text, "way": way}, of_way, ["J", "start"])
        for youden in settings.youdens:
            labels = {"kind": "trained", "objective": text, "way": way, "J": youden}
            yield trained_on(verifier_of(youden, way), text, settings, labels, START)
    for text, (errors, verifier) in itertools.product(settings.objectives, HACKED.items()):
        labels = {"objective": text, "errors": errors}
        near = functools.partial(drift_at, policy(*NEAR), text, verifier(NEAR[1]), size)
        yield study.Curve({"kind": "exact"} | labels, near)
        for hack in settings.hacks:
            yield trained_on(
                verifier(hack),
                text,
                settings,
                {"kind": "trained", "hack": hack} | labels,
                START,
                hack,
            )


def ends_agree(of_name: Records) -> bool | None:
    """Whether accuracy ends above its start where J is high, and below where it is low, at each J and way."""
    cells = [
        (of["J"], rows) for of, rows in of_name.where(kind="trained").having("J").each("way", "J")
    ]
    rises = [
        rows.final("accuracy").exceeds(START, MOVED) for youden, rows in cells if youden >= CLEAR
    ]
    falls = [
        study.below(study.final("accuracy"), START - MOVED)(rows)
        for youden, rows in cells
        if youden <= -CLEAR
    ]
    return study.all_of([*rises, *falls])


def falls_with_youden(value: str) -> study.Claim:
    return study.above(study.difference(value, BOTH | {"J": 0.3}, BOTH | {"J": 1.0}), FEWER)


BOTH = {"kind": "trained", "way": "both"}
WAYS_AGREE = study.at_each("J", world.ways_agree, kind="trained")
BELOW_RANDOM = study.above(
    study.difference("accuracy", {"errors": RANDOM}, {"errors": ALWAYS}), MOVED
)
HACK_COSTS = study.at_each("hack", BELOW_RANDOM, kind="trained")
ABOUT = {  # Sentence -> a claim about the records of one objective, and of which.
    "the exact drift of true accuracy has the sign of J at every policy": (
        world.signs_agree,
        NAMES,
    ),
    f"trained at each |J| >= {CLEAR}, accuracy ends over {MOVED} above its start where J > 0, below where J < 0": (
        ends_agree,
        NAMES,
    ),
    "only J matters: the exact update is J times the one without errors": (
        vanishes("from_scaled"),
        ["dr_grpo"],
    ),
    "only J matters: the exact update has the direction without errors": (
        vanishes("turned"),
        ["grpo"],
    ),
    "only J matters: the exact update is the same in three ways": (
        vanishes("from_both"),
        ["grpo", "ips_grpo"],
    ),
    "only J matters: trained in three ways, accuracy ends within 0.05 at every J": (
        WAYS_AGREE,
        NAMES,
    ),
    "near the hack the exact drift is below 0, under random errors of the J there above 0": (
        world.draws_near,
        NAMES,
    ),
    f"the hack ends over {MOVED} less accurate than random errors of its J at the start, at each share": (
        HACK_COSTS,
        NAMES,
    ),
    f"J = 1 leaves over {FEWER} fewer right outcomes than J = 0.3 after equal updates": (
        falls_with_youden("effective"),
        NAMES,
    ),
    f"J = 1 leaves over {FEWER} fewer right outcomes than J = 0.3 when accuracy first is 0.9": (
        falls_with_youden("effective_at_equal"),
        NAMES,
    ),
}
CLAIMS = {
    f"{NAMES[name]}: {sentence}": study.among(claim, objective=name)
    for sentence, (claim, names) in ABOUT.items()
    for name in names
}
GRPO, IPS = ({"kind": "trained", "objective": name} for name in ("grpo", "ips_grpo"))
NUMBERS = {
    "true accuracy, GRPO, J = -0.4": study.final("accuracy", **GRPO | BOTH, J=-0.4),
    "true accuracy, GRPO, J = 0.3": study.final("accuracy", **GRPO | BOTH, J=0.3),
    "true accuracy, GRPO, a hack of 20 % of wrong answers": study.final(
        "accuracy", **GRPO, errors=ALWAYS, hack=0.2
    ),
    "true accuracy, GRPO, random errors of J = 0.8": study.final(
        "accuracy", **GRPO, errors=RANDOM, hack=0.2
    ),
    "true accuracy, IPS-GRPO, J = 0.3 by false negatives": study.final(
        "accuracy", **IPS, way=WAYS[0], J=0.3
    ),
    "true accuracy, IPS-GRPO, J = 0.3 by false positives": study.final(
        "accuracy", **IPS, way=WAYS[1], J=0.3
    ),
}
MEASURED, ROWS = ("accuracy", "effective", "effective_at_equal"), (("way", "J"), ("errors", "hack"))
TABLES = (
    study.Table(MEASURED, where={"kind": "trained"}, rows=("objective", *rows)) for rows in ROWS
)
TABLE = study.one_below_the_other(*TABLES)
YOUDEN, HELD, KEPT = (
    "J, true minus false positive rate",
    "true accuracy after training",
    "effective right outcomes",
)
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

if __name__ == "__main__":
    study.main(__name__)
