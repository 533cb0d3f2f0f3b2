"""Two failures of GRPO: groups without a signal, and an entropy that does not come back.

Claim     Groups that are all right or all wrong are silent, and training drowns in them. Entropy below 0.5 nats for 50
          steps does not come back by itself; an entropy bonus or inverse probabilities (IPS) bring lost outcomes back.
Paper     arXiv 2503.14476 (silent groups), 2505.22617 (entropy), 2601.21669 (IPS). The limit of 0.5 nats is folklore.
Arms      Groups of 4 to 32 beside p^G + (1 - p)^G. The monitor `low_entropy` at five limits, 1, 2 or 4 right outcomes
          of 8, under GRPO, three entropy bonuses, IPS. GRPO's runs with 4, from where it calls at 0.5 on: left alone,
          with a bonus, with IPS; placebo: with GRPO again. `experiments.kl_coefficient` has the third failure.
Command   python -m experiments.grpo_failures
Time      demo two CPU minutes, smoke a sixth of one; paper, not run, an estimated half hour.
Expected  40 seeds. At the end 0.99 (G = 4) to 0.98 (G = 32) of all groups are silent: the prompt is solved, so this is
          success; whether silence keeps other prompts unsolved is not asked. At 0.5 nats the monitor calls all runs
          that lose their outcomes, one of 160 that keep 2 or 4, and all 200 with one right outcome, which have none to
          lose and whose entropy must go. Called runs come back neither alone nor under GRPO (0 of 40); a bonus of 0.1
          brings the outcomes of none back, a bonus of 0.3 and IPS those of all, at accuracies of 0.994 and 0.995.
Doubt     Tasks whose wrong answers are many: there a bonus of this size may cost accuracy.
Smoke     python -m experiments.grpo_failures --preset=smoke

Entropy and accuracy are those of the policy itself. A run has lost its outcomes if at the end exp(H) of the shares of
right ones, less 1, is at most half of what it can be; a run with one right outcome has none to lose.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from experiments.grpo_failures import histories
from experiments.grpo_failures.histories import (
    calls,
    has_lost,
    logits_of_runs,
    measures,
    silent_groups,
    spread,
)
from ipsrl import study
from ipsrl.fields import at_least, positive
from ipsrl.figures.layers import Bars, Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import any_of

ARMS, WINDOWS, LAST = (
    8,
    20,
    50,
)  # Outcomes; windows of training; steps that must all be above the limit at the end.
BONUSES = tuple(f"grpo(entropy={bonus})" for bonus in (0.03, 0.1, 0.3))
ALONE, LIMIT = "left alone", 0.5
Runs = Callable[
    [str, int], np.ndarray
]  # Objective and number of right outcomes -> `[S, steps + 1, 8]` logits.


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`objectives` are watched, and called runs are switched to them; the most `right` outcomes are those of these."""

    objectives: tuple[str, ...] = study.objectives(("grpo", *BONUSES, "ips_grpo"))
    right: tuple[int, ...] = study.rising((1, 2, 4), least=1, most=ARMS - 1)
    limits: tuple[float, ...] = study.rising((0.1, 0.25, 0.5, 0.75, 1.0), least=0.01, most=2)
    group_sizes: tuple[int, ...] = study.rising((4, 8, 16, 32), least=2, most=256)
    seeds: tuple[int, ...] = study.seeds(tuple(range(32, 72)), least=2)
    group_size: int = at_least(2, 16)
    steps: int = positive(2000)


PRESETS = {
    "smoke": Settings(
        ("grpo",),
        seeds=tuple(range(8)),
        steps=1000,
        record_every=500,
        right=(2,),
        limits=(0.5,),
        group_sizes=(8,),
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32, 160)), steps=10_000),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    runs = functools.cache(
        lambda text, right: logits_of_runs(text, right, spread(right, ARMS), settings)
    )
    for size in settings.group_sizes:
        yield study.Curve(
            {"part": "silent", "group_size": size}, functools.partial(groups, size, settings)
        )
    for text, right in itertools.product(settings.objectives, settings.right):
        labels = {"part": "monitor", "objective": text, "right": right}
        yield study.Curve(
            labels, functools.partial(watched, runs, text, right, settings), ["limit"]
        )
    for text in (ALONE, *settings.objectives):
        yield study.Curve(
            {"part": "after", "objective": text},
            functools.partial(after_call, runs, text, settings),
        )


def groups(size: int, settings: Settings) -> study.Points:
    """The share of silent groups in windows of training."""
    right = max(settings.right)
    logits = logits_of_runs(
        "grpo", right, spread(right, ARMS), dataclasses.replace(settings, group_size=size)
    )
    steps = np.linspace(0, settings.steps, WINDOWS + 1).astype(int)[1:]
    return study.Points(steps, silent_groups(logits, right, size, WINDOWS), settings.seeds)


def watched(runs: Runs, text: str, right: int, settings: Settings) -> study.Points:
    """Which runs the monitor calls at each limit, and which have lost their outcomes at the end."""
    logits = runs(text, right)
    called = np.stack(
        [calls(logits, right, limit).any(axis=1) for limit in settings.limits], axis=1
    )
    values = {
        "limit": settings.limits,
        "called": 1 * called,
        "lost": 1 * has_lost(logits[:, -1:], right),
    }
    return study.Points([settings.steps] * len(settings.limits), values, settings.seeds)


def after_call(runs: Runs, text: str, settings: Settings) -> study.Points:
    """GRPO's called runs: whether entropy is `back` above the limit, and the outcomes `whole` at an accuracy of 0.9."""
    right = max(settings.right)
    logits, seeds = runs("grpo", right), np.array(settings.seeds)
    fires = calls(logits, right, LIMIT)
    if not len(chosen := np.flatnonzero(fires.any(axis=1))):
        raise ValueError("the monitor calls no run of GRPO: take more --steps")
    at_call, others = logits[chosen, fires[chosen].argmax(axis=1)], seeds[chosen] + 1000
    later = (
        logits[chosen] if text == ALONE else logits_of_runs(text, right, at_call, settings, others)
    )
    last, end = later[:, -LAST:], measures(later[:, -1:], right)
    back = (measures(last, right)["entropy"] > LIMIT).all(axis=1, keepdims=True)
    whole = ~has_lost(later[:, -1:], right) & (end["accuracy"] >= 0.9)
    return study.Points(
        [settings.steps], {"back": 1 * back, "whole": 1 * whole, **end}, seeds[chosen]
    )


def brings_back(objective: str) -> study.Claim:
    return study.above(after("whole", objective=objective), 0.5)


after = functools.partial(study.share, part="after")
at_each_size = functools.partial(study.at_each, "group_size", part="silent")
FEW_BACK = "less than 0.1 of called runs come back above 0.5 nats"
BRINGS_BACK = "brings the outcomes of most called runs back, at accuracy 0.9"
SOLVED = (
    "this one prompt is solved: at the end more than 0.9 of all groups are silent, at each size"
)
CLAIMS = {
    "the share of silent groups is p^G + (1 - p)^G within 0.01, at each size": at_each_size(
        histories.as_computed
    ),
    SOLVED: at_each_size(study.above(study.final("silent"), 0.9)),
    **histories.alarms(LIMIT),
    f"left alone, {FEW_BACK}": study.below(after("back", objective=ALONE), 0.1),
    f"switched to GRPO, {FEW_BACK}": study.below(after("back", objective="grpo"), 0.1),
    f"some entropy bonus {BRINGS_BACK}": lambda records: any_of(
        brings_back(name)(records) for name in BONUSES
    ),
    f"IPS {BRINGS_BACK}": brings_back("ips_grpo"),
}
NUMBERS = {
    "share of silent groups at the end, G = 8": study.final("silent", part="silent", group_size=8),
    **histories.alarm_shares(LIMIT),
    "back above 0.5 nats when left alone": after("back", objective=ALONE),
    "outcomes back with a bonus of 0.1": after("whole", objective=BONUSES[1]),
    "outcomes back with IPS": after("whole", objective="ips_grpo"),
}
ENDS = ("back", "whole", "entropy", "effective", "accuracy")
COLUMNS = {"silent": ("silent", "exact"), "monitor": ("called", "lost"), "after": ENDS}
TABLE = study.one_below_the_other(
    *(study.Table(names, where={"part": part}) for part, names in COLUMNS.items())
)
SILENT = {"by": "group_size", "where": {"part": "silent"}}
GROUPS = [Line("exact", **SILENT, dashed=True), Markers("silent", **SILENT)]
CALLED, BACK = (
    Line("called", "limit", where={"part": "monitor", "right": 4}),
    Bars("whole", where={"part": "after"}),
)
PANELS = [
    Panel(GROUPS, "GRPO, by group size", "updates", "share of silent groups"),
    Panel([CALLED], "4 right outcomes of 8", "limit of the monitor, nats", "share of runs called"),
    Panel([BACK], "GRPO's called runs", "share with outcomes back, accuracy 0.9"),
]
FIGURE = Panels(PANELS)
