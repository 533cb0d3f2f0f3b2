"""Does training on the fifth of the tokens with the highest entropy do as well as training on all?

Claim     A fifth of the tokens carries the entropy; training on them alone does as well as on all tokens or better, on
          the others alone it fails, and the choice hardly changes: 86 % of it are the first policy's to the end.
Paper     arXiv 2506.01939 (Qwen3-8B to 32B; no pass@k). Sharp forms, ours: it is the choice, not the larger step that
          the mean over a fifth gives; it does not depend on how well the other tokens are done already. The rules and
          the case of right steps were written after a trial with 16 of the seeds; the late point, the margins and the
          claim about a random fifth after a run with all.
Arms      All tokens (GRPO, clip 0.2 / 0.28, token mean); the fifth of highest entropy; the other four fifths; the plan
          tokens, known by construction. Placebos: a random fifth; all tokens with five times the step. Equal numbers of
          answers, exact ones of ten tokens: two forks of three branches, four right plans of nine, each fork with four
          steps that slip with probability 0.002, 0.02 or 0.1 at the start; a table of logits, SGD. Text: sums in eight
          spellings, a small transformer from a prior, Adam (where the size of the step cancels).
Command   python -m experiments.forking_tokens
Time      demo eight minutes of CPU time, smoke one.
Expected  reward of all tokens, the top fifth, a random fifth, all with five times the step, after 600 updates: 0.981,
          0.983, 0.981, 0.994 where steps are right already; 0.918, 0.529, 0.919, 0.993 with slips of 0.1, where the
          top fifth is only later: 0.95 after 3000, all tokens 0.99. Text 0.988, 0.925 [0.917, 0.934], random 0.958. So
          it is the step; tokens left out are missing. The first policy's choice is 1.00, 0.33, in text 0.24 of the top.
Doubt     If the fifth won with no larger steps, or in text where half of the tokens are below 0.01 nats, as in Qwen3:
          ours carry too much elsewhere, 0.56 of the entropy at the start.
Smoke     python -m experiments.forking_tokens --preset=smoke
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from experiments.forking_tokens.top_tokens import FIFTH, forks_curve, text_runs
from ipsrl import study
from ipsrl.fields import one_of, positive, probability
from ipsrl.figures.layers import Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.claims import Claim, above, close
from ipsrl.study.numbers import Number
from ipsrl.study.text_tasks import SMALL, SMOKE

ALL, TOP, REST, RANDOM, PLAN = ARMS = (
    "dapo(overlong=0)",
    "forking_tokens",
    "forking_tokens(tokens=others)",
    "forking_tokens(tokens=random)",
    "forking_tokens(tokens=planning)",
)
LARGER, EASY, HARD, TEXT = "all tokens, 5 x step", "slips 0.002", "slips 0.1", "text"
NAMES = {ALL: "all tokens", TOP: "the top fifth", RANDOM: "a random fifth", LARGER: LARGER}
EARLY, LATE, MARGIN, SAME = 600, 3000, 0.01, 0.86
TEXTS = {
    "smoke": dataclasses.replace(SMOKE, seeds=(0,)),
    "demo": dataclasses.replace(SMALL, steps=100, evaluate_every=10),
    "paper": dataclasses.replace(SMALL, steps=1000, evaluate_every=10),
}


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`slips` are the probabilities of a slip at the start; `text` is the size of the task in words."""

    objectives: tuple[str, ...] = study.objectives(ARMS)
    slips: tuple[float, ...] = probability((0.002, 0.02, 0.1))
    seeds: tuple[int, ...] = study.seeds(tuple(range(32)), least=2)
    learning_rate: float = positive(1.0)
    steps: int = positive(LATE)
    record_every: int = positive(50)
    text: str = one_of(*TEXTS, default="demo")


PRESETS = {
    "smoke": Settings(objectives=(RANDOM,), slips=(0.02,), seeds=(0, 1), steps=50, text="smoke"),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), steps=2 * LATE, text="paper"),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    arms = {text: (text, 1.0) for text in settings.objectives} | {LARGER: (ALL, 1 / FIFTH)}
    for slip, (arm, (text, times)) in itertools.product(settings.slips, arms.items()):
        labels = {"task": f"slips {slip:g}", "objective": arm}
        yield forks_curve(slip, text, settings, labels, times * settings.learning_rate)
    in_text = dataclasses.replace(TEXTS[settings.text], objectives=settings.objectives)
    yield from text_runs("addition(digits=2, problems=32)", in_text).curves({"task": TEXT})


def values(records: Records, value: str, task: str, arm: str, step: int) -> np.ndarray:
    """`[S]`, after a number of updates, in text at the end."""
    labels = {"task": task} if task == TEXT else {"task": task, "step": step}
    return records.where(**labels).ends(value, objective=arm)


def mean(value: str, task: str, arm: str, step: int = EARLY) -> Number:
    return lambda records: interval_of(values(records, value, task, arm, step))


def gain(one: str, other: str, task: str, step: int = EARLY) -> Number:
    """For NUMBERS: by how much one arm scores more than another, seed by seed."""
    return lambda r: interval_of(
        values(r, "score", task, one, step) - values(r, "score", task, other, step)
    )


def on_all(claim: Callable[[str], Claim], also_text: bool = True) -> Claim:
    """For CLAIMS: whether what is claimed of a task holds on all of them, or on all exact ones."""
    return lambda r: study.all_of(
        claim(task)(r) for task in r.distinct("task") if also_text or task != TEXT
    )


def ahead(one: str, other: str, by: float, also_text: bool = True, step: int = EARLY) -> Claim:
    return on_all(lambda task: above(gain(one, other, task, step), by), also_text)


def like_all(task: str) -> Claim:
    return lambda records: close(gain(RANDOM, ALL, task)(records), 0.0, MARGIN)


AT = "after 600 updates (text: at the end)"
CLAIMS = {
    f"{AT} the top fifth scores at most 0.01 below all tokens, on all tasks": ahead(
        TOP, ALL, -MARGIN
    ),
    "after 600 updates the top fifth scores at most 0.01 below all tokens where steps are right already (slips 0.002)": above(
        gain(TOP, ALL, EASY), -MARGIN
    ),
    "after 3000 updates the top fifth scores at most 0.01 below all tokens, on all exact tasks": ahead(
        TOP, ALL, -MARGIN, False, LATE
    ),
    f"{AT} the other four fifths score more than 0.01 below all tokens, on all tasks": ahead(
        ALL, REST, MARGIN
    ),
    f"{AT} the top fifth scores more than 0.01 above a random fifth, on all tasks": ahead(
        TOP, RANDOM, MARGIN
    ),
    "after 600 updates a random fifth scores within 0.01 of all tokens, on all exact tasks": on_all(
        like_all, False
    ),
    "after 600 updates the top fifth scores at most 0.01 below all tokens with five times the step, on all exact tasks": ahead(
        TOP, LARGER, -MARGIN, False
    ),
    f"{AT} plan tokens score at most 0.01 below the top fifth, on all tasks": ahead(
        PLAN, TOP, -MARGIN
    ),
    f"{AT} the first policy would choose 86 % of the top fifth or more, on all tasks": on_all(
        lambda task: above(mean("overlap", task, TOP), SAME)
    ),
}
NUMBERS = {
    f"reward of {NAMES[arm]}, {task}, {when}": mean("score", task, arm, step)
    for when, step in {"after 600 updates": EARLY, "after 3000 updates": LATE}.items()
    for task, arm in itertools.product((EASY, HARD), NAMES)
} | {f"reward of {NAMES[arm]}, text": mean("score", TEXT, arm) for arm in (ALL, TOP, RANDOM)}
NUMBERS |= {
    f"{what}, {task}, {AT}": mean(value, task, arm)
    for task, (what, value, arm) in itertools.product(
        (EASY, HARD, TEXT),
        (
            ("effective right outcomes of all tokens", "effective", ALL),
            ("effective right outcomes of the top fifth", "effective", TOP),
            ("share of the top fifth that the first policy would choose", "overlap", TOP),
        ),
    )
}
TABLE = study.Table(
    ("score", "effective", "entropy", "share", "overlap"),
    "{task}",
    rows=("objective",),
    each="task",
)
SCORE, EFFECTIVE, OVERLAP = (
    Line(value, markers=False) for value in ("score", "effective", "overlap")
)
PANELS = [
    Panel([SCORE], "{task}", "updates", "score, the mean reward"),
    Panel([EFFECTIVE], "{task}", "updates", "effective right outcomes"),
    Panel(
        [OVERLAP, Level(SAME, "the paper's")],
        "{task}",
        "updates",
        "share the first policy would choose",
    ),
]
FIGURE = Panels(PANELS, each="task")
