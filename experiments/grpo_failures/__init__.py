"""Two failures of GRPO: groups without a signal, and an entropy that does not come back.

Claim     Groups that are all right or all wrong are silent, and training drowns in them. Entropy below 0.5 nats for 50
          steps does not come back by itself; an entropy bonus or inverse probabilities (IPS) bring lost outcomes back.
Paper     arXiv 2503.14476 (silent groups), 2505.22617 (entropy), 2601.21669 (IPS). The limit of 0.5 nats is folklore.
Arms      Groups of 4 to 32 beside p^G + (1 - p)^G. The monitor `low_entropy` at five limits, 1, 2 or 4 right outcomes
          of 8, under GRPO, three entropy bonuses, IPS. GRPO's runs with 4, from where it calls at 0.5 on: left alone,
          with a bonus, with IPS; placebo: with GRPO again. `experiments.kl_coefficient` has the third failure.
Command   python -m experiments.grpo_failures
Time      demo two CPU minutes, smoke a sixth of one; paper, not run, an estimated half hour.
Expected  At the end nearly all groups are silent, 0.99 of the smallest, 0.98 of the largest: the prompt is solved, so
          this is success; whether silence keeps other prompts unsolved is not asked. The monitor, at half a nat, calls
          all runs that lose their outcomes, hardly one that keeps several, and all with one right outcome, which have
          none to lose and whose entropy must go. Called runs come back neither alone nor under GRPO; the medium bonus
          brings the outcomes of none back, the largest one and IPS those of all, at accuracies of 0.994 and 0.995.
Doubt     Tasks whose wrong answers are many: there a bonus of this size may cost accuracy.
Smoke     python -m experiments.grpo_failures --preset=smoke

Entropy and accuracy are those of the policy itself. A run has lost its outcomes if at the end exp(H) of the shares of
right ones, less 1, is at most half of what it can be; a run with one right outcome has none to lose.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np

from experiments.grpo_failures.histories import (
    calls,
    has_lost,
    logits_of_runs,
    measures,
    silent_groups,
    spread,
)
from ipsrl import study
from ipsrl.checking.fields import at_least, positive
from ipsrl.figures.layers import Bars, Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records

ARMS = 8
WINDOWS = 20
"""Parts of training in which silent groups are counted."""
LAST = 50
"""Steps at the end in which all entropies must be above the limit if a run is back."""
LIMIT = 0.5
BONUSES = ("grpo(entropy=0.03)", "grpo(entropy=0.1)", "grpo(entropy=0.3)")
ALONE = "left alone"
Runs = Callable[[str, int], np.ndarray]
"""Objective and number of right outcomes -> `[S, steps + 1, 8]` logits."""


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`objectives` are watched, and called runs are switched to them; the most `right` outcomes are those of these."""

    objectives: tuple[str, ...] = study.objectives(("grpo", *BONUSES, "ips_grpo"))
    right: tuple[int, ...] = study.rising((1, 2, 4), least=1, most=ARMS - 1)
    limits: tuple[float, ...] = study.rising((0.1, 0.25, 0.5, 0.75, 1.0), least=0.01, most=2)
    group_sizes: tuple[int, ...] = study.rising((4, 8, 16, 32), least=2, most=256)
    seeds: tuple[int, ...] = study.seeds(range(32, 72), least=2)
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


def curves(settings: Settings) -> study.Curves:
    @functools.cache
    def runs(objective: str, right: int) -> np.ndarray:
        return logits_of_runs(objective, right, spread(right, ARMS), settings)

    for size in settings.group_sizes:
        labels = {"part": "silent", "group_size": size}
        yield study.Curve(labels, functools.partial(groups, size, settings))
    for objective, right in itertools.product(settings.objectives, settings.right):
        labels = {"part": "monitor", "objective": objective, "right": right}
        compute = functools.partial(watched, runs, objective, right, settings)
        yield study.Curve(labels, compute, ["limit"])
    for objective in (ALONE, *settings.objectives):
        labels = {"part": "after", "objective": objective}
        yield study.Curve(labels, functools.partial(after_call, runs, objective, settings))


def groups(size: int, settings: Settings) -> study.Points:
    """The share of silent groups in windows of training."""
    right = max(settings.right)
    of_size = dataclasses.replace(settings, group_size=size)
    logits = logits_of_runs("grpo", right, spread(right, ARMS), of_size)
    steps = np.linspace(0, settings.steps, WINDOWS + 1).astype(int)[1:]
    return study.Points(steps, silent_groups(logits, right, size, WINDOWS), settings.seeds)


def watched(runs: Runs, objective: str, right: int, settings: Settings) -> study.Points:
    """Which runs the monitor calls at each limit, and which have lost their outcomes at the end."""
    logits = runs(objective, right)
    called = [calls(logits, right, limit).any(axis=1) for limit in settings.limits]
    values = {
        "limit": settings.limits,
        "called": 1 * np.stack(called, axis=1),
        "lost": 1 * has_lost(logits[:, -1:], right),
    }
    return study.Points([settings.steps] * len(settings.limits), values, settings.seeds)


def after_call(runs: Runs, objective: str, settings: Settings) -> study.Points:
    """GRPO's called runs: whether entropy is `back` above the limit, and the outcomes `whole` at an accuracy of 0.9."""
    right = max(settings.right)
    logits = runs("grpo", right)
    fires = calls(logits, right, LIMIT)
    called = np.flatnonzero(fires.any(axis=1))
    if not len(called):
        raise ValueError("the monitor calls no run of GRPO: take more --steps")
    seeds = np.array(settings.seeds)[called]
    if objective == ALONE:
        later = logits[called]
    else:
        at_call = logits[called, fires[called].argmax(axis=1)]
        later = logits_of_runs(objective, right, at_call, settings, seeds + 1000)
    end = measures(later[:, -1:], right)
    back = measures(later[:, -LAST:], right)["entropy"] > LIMIT
    whole = ~has_lost(later[:, -1:], right) & (end["accuracy"] >= 0.9)
    values = {"back": 1 * back.all(axis=1, keepdims=True), "whole": 1 * whole, **end}
    return study.Points([settings.steps], values, seeds)


def more_silent(records: Records) -> np.ndarray:
    """`[S]`, by how much more groups are silent than computed, in the mean over training."""
    silent, exact = (records.curve(name)[1].mean(axis=1) for name in ("silent", "exact"))
    return silent - exact


def brings_back(objective: str) -> study.Claim:
    return study.above(after_a_call("whole", objective=objective), 0.5)


after_a_call = functools.partial(study.share, part="after")
at_each_size = functools.partial(study.at_each, "group_size", part="silent")
under_each = functools.partial(study.at_each, "objective", part="monitor", limit=LIMIT)
MORE_SILENT = study.Computed("share of silent groups less p^G + (1 - p)^G", more_silent)
# Not of all objectives together: that share is set by which of them are trained.
MOST_CALLED = study.above(study.share("called"), 0.9)
FEW_CALLED = study.below(study.share("called"), 0.1)
CALLS_MOST = "the monitor calls over 0.9, under each objective"
CALLS_FEW = "the monitor calls under 0.1, under each objective"
FEW_BACK = "less than 0.1 of called runs come back above 0.5 nats"
BRINGS_BACK = "brings the outcomes of most called runs back, at accuracy 0.9"
SOLVED = (
    "this one prompt is solved: at the end more than 0.9 of all groups are silent, at each size"
)
CLAIMS = {
    "the share of silent groups is p^G + (1 - p)^G within 0.01, at each size": at_each_size(
        study.near(MORE_SILENT, 0.0, 0.01)
    ),
    SOLVED: at_each_size(study.above(study.final("silent"), 0.9)),
    **{
        f"of runs that lose their {right} right outcomes {CALLS_MOST}": under_each(
            MOST_CALLED, right=right, lost=1
        )
        for right in (2, 4)
    },
    **{
        f"of runs that keep their {right} right outcomes {CALLS_FEW}": under_each(
            FEW_CALLED, right=right, lost=0
        )
        for right in (2, 4)
    },
    f"of runs with 1 right outcome, none to lose, {CALLS_FEW}": under_each(
        FEW_CALLED, right=1, lost=0
    ),
    f"left alone, {FEW_BACK}": study.below(after_a_call("back", objective=ALONE), 0.1),
    f"switched to GRPO, {FEW_BACK}": study.below(after_a_call("back", objective="grpo"), 0.1),
    f"some entropy bonus {BRINGS_BACK}": study.some(map(brings_back, BONUSES)),
    f"IPS {BRINGS_BACK}": brings_back("ips_grpo"),
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "Lost entropy does not come back by itself; an entropy bonus or inverse "
        "probabilities bring lost outcomes back."
    ),
    scope="one prompt in a table of logits",
    decided_by=(
        "left alone, less than 0.1 of called runs come back above 0.5 nats",
        "some entropy bonus brings the outcomes of most called runs back, at accuracy 0.9",
        "IPS brings the outcomes of most called runs back, at accuracy 0.9",
    ),
)
TABLE = study.one_below_the_other(
    study.Table(("silent", "exact"), where={"part": "silent"}),
    study.Table(("called", "lost"), where={"part": "monitor"}),
    study.Table(("back", "whole", "entropy", "effective", "accuracy"), where={"part": "after"}),
)
SILENT = {"by": "group_size", "where": {"part": "silent"}}
GROUPS = [Line("exact", **SILENT, dashed=True), Markers("silent", **SILENT)]
CALLED = Line("called", "limit", where={"part": "monitor", "right": 4})
BACK = Bars("whole", where={"part": "after"})
FIGURE = Panels(
    [
        Panel(GROUPS, "GRPO, by group size", "updates", "share of silent groups"),
        Panel(
            [CALLED], "4 right outcomes of 8", "limit of the monitor, nats", "share of runs called"
        ),
        Panel([BACK], "GRPO's called runs", "share with outcomes back, accuracy 0.9"),
    ]
)
