"""Does training on the fifth of the tokens with the highest entropy do as well as training on all?

Claim     A fifth of the tokens carries the entropy; training on them alone does as well as on all tokens or better, on
          the others alone it fails, and the choice hardly changes: 86 % of it are the first policy's to the end.
Paper     arXiv 2506.01939 (Qwen3-8B to 32B; no pass@k). Sharp forms, ours: it is the choice, not the larger step that
          the mean over a fifth gives; it does not depend on how well the other tokens are done already. The rules and
          the case of right steps were written after a trial with 16 other seeds; the late point, the margins and
          the claim about a random fifth after a run of these and 16 more.
Arms      All tokens (GRPO, clip 0.2 / 0.28, token mean); the fifth of highest entropy; the other four fifths; the plan
          tokens, known by construction. Placebos: a random fifth; all tokens with five times the step. Equal numbers of
          answers, exact ones of ten tokens: two forks of three branches, four right plans of nine, each fork with four
          steps that slip with probability 0.002, 0.02 or 0.1 at the start; a table of logits, SGD. Text: sums in eight
          spellings, a small transformer from a prior, Adam (where the size of the step cancels).
Command   python -m experiments.forking_tokens
Time      demo eight minutes of CPU time, smoke one.
Expected  Reward of all tokens and of the top fifth at the early point: 0.982 and 0.983 where steps are right already,
          0.922 and 0.547 where steps slip most often and the top fifth is only later. A random fifth does as all
          tokens, and five times the step is better than either: so it is the step, and tokens left out are missing. In
          text the first policy would choose 0.24 of the top.
Doubt     If the fifth won with no larger steps, or in text where half of the tokens are below 0.01 nats, as in Qwen3:
          ours carry too much elsewhere, 0.56 of the entropy at the start.
Smoke     python -m experiments.forking_tokens --preset=smoke
"""

import dataclasses
from collections.abc import Sequence

from experiments.forking_tokens.top_tokens import FIFTH, forks_curve, text_runs
from ipsrl import study
from ipsrl.checking.fields import one_of, positive, probability
from ipsrl.figures.layers import Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.text_tasks import SMALL, SMOKE

ALL = "dapo(overlong=0)"
TOP = "forking_tokens"
REST = "forking_tokens(tokens=others)"
RANDOM = "forking_tokens(tokens=random)"
PLAN = "forking_tokens(tokens=planning)"
ARMS = (ALL, TOP, REST, RANDOM, PLAN)
LARGER = "all tokens, 5 x step"
NAMES = {ALL: "all tokens", TOP: "the top fifth", RANDOM: "a random fifth", LARGER: LARGER}
EXACT = {"slips 0.002": 0.002, "slips 0.02": 0.02, "slips 0.1": 0.1}
EASY, _, HARD = EXACT
TEXT = "text"
TASKS = (*EXACT, TEXT)
EARLY, LATE = 600, 3000
MARGIN = 0.01
SAME = 0.86
"""The paper's share of the top fifth that the first policy would choose."""
TEXTS = {
    "smoke": dataclasses.replace(SMOKE, seeds=(0,)),
    "demo": dataclasses.replace(SMALL, steps=100, evaluate_every=10),
    "paper": dataclasses.replace(SMALL, steps=1000, evaluate_every=10),
}


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`slips` are the probabilities of a slip at the start; `text` is the size of the task in words."""

    objectives: tuple[str, ...] = study.objectives(ARMS)
    slips: tuple[float, ...] = probability(tuple(EXACT.values()))
    seeds: tuple[int, ...] = study.seeds(range(100, 132), least=2)
    learning_rate: float = positive(1.0)
    steps: int = positive(LATE)
    record_every: int = positive(50)
    text: str = one_of(*TEXTS, default="demo")


PRESETS = {
    "smoke": Settings(objectives=(RANDOM,), slips=(0.02,), seeds=(0, 1), steps=50, text="smoke"),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(100, 356)), steps=2 * LATE, text="paper"),
}


def curves(settings: Settings) -> study.Curves:
    for slip in settings.slips:
        task = {"task": f"slips {slip:g}"}
        for arm in settings.objectives:
            labels = task | {"objective": arm}
            yield forks_curve(slip, arm, settings, labels, settings.learning_rate)
        labels = task | {"objective": LARGER}
        yield forks_curve(slip, ALL, settings, labels, settings.learning_rate / FIFTH)
    in_text = dataclasses.replace(TEXTS[settings.text], objectives=settings.objectives)
    yield from text_runs("addition(digits=2, problems=32)", in_text).curves({"task": TEXT})


def end(value: str, task: str, arm: str, step: int = EARLY) -> study.Number:
    """After a number of updates, in text at the end."""
    at = {} if task == TEXT else {"step": step}
    return study.final(value, task=task, objective=arm, **at)


def ahead(
    one: str, other: str, by: float, tasks: Sequence[str] = TASKS, step: int = EARLY
) -> study.Claim:
    """Whether one arm scores more than another on all of these tasks."""
    return study.every(
        study.above(end("score", task, one, step), end("score", task, other, step), by)
        for task in tasks
    )


AT = "after 600 updates (text: at the end)"
SLOWER = "the top fifth scores at most 0.01 below all tokens"
CLAIMS = {
    f"{AT} {SLOWER}, on all tasks": ahead(TOP, ALL, -MARGIN),
    f"after 600 updates {SLOWER} where steps are right already (slips 0.002)": ahead(
        TOP, ALL, -MARGIN, (EASY,)
    ),
    f"after 3000 updates {SLOWER}, on all exact tasks": ahead(
        TOP, ALL, -MARGIN, tuple(EXACT), LATE
    ),
    f"{AT} the other four fifths score more than 0.01 below all tokens, on all tasks": ahead(
        ALL, REST, MARGIN
    ),
    f"{AT} the top fifth scores more than 0.01 above a random fifth, on all tasks": ahead(
        TOP, RANDOM, MARGIN
    ),
    "after 600 updates a random fifth scores within 0.01 of all tokens, on all exact tasks": (
        study.every(
            study.near(end("score", task, RANDOM), end("score", task, ALL), MARGIN)
            for task in EXACT
        )
    ),
    f"after 600 updates {SLOWER} with five times the step, on all exact tasks": ahead(
        TOP, LARGER, -MARGIN, tuple(EXACT)
    ),
    f"{AT} plan tokens score at most 0.01 below the top fifth, on all tasks": ahead(
        PLAN, TOP, -MARGIN
    ),
    f"{AT} the first policy would choose 86 % of the top fifth or more, on all tasks": study.every(
        study.above(end("overlap", task, TOP), SAME) for task in TASKS
    ),
}
HEADLINE = study.Headline(
    subject="Thinking, planning and computation at test time",
    claim=(
        "Training on the fifth of the tokens with highest entropy does as well as training on all."
    ),
    scope="plans with forks in tables, and a small transformer",
    decided_by=(
        (
            "after 600 updates (text: at the end) the top fifth scores at most 0.01 below all "
            "tokens, on all tasks"
        ),
    ),
)
NUMBERS = {
    f"reward of {name}, {task}, after 600 updates": end("score", task, arm)
    for task in (EASY, HARD)
    for arm, name in NAMES.items()
}
TABLE = study.Table(
    ("score", "effective", "entropy", "share", "overlap"),
    "{task}",
    rows=("objective",),
    each="task",
)
LINES = {
    "score": "score, the mean reward",
    "effective": "effective right outcomes",
    "overlap": "share the first policy would choose",
}
LEVELS = {"overlap": [Level(SAME, "the paper's")]}
FIGURE = Panels(
    [
        Panel(
            [Line(value, markers=False), *LEVELS.get(value, [])],
            "{task}",
            "updates",
            ylabel,
        )
        for value, ylabel in LINES.items()
    ],
    each="task",
)
