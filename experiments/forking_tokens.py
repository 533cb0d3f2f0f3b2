"""Does training on the fifth of the tokens with the highest entropy do as well as training on all?

Claim     A fifth of the tokens carries the entropy; training on them alone does as well as on all tokens or better, on
          the others alone it fails, and the choice hardly changes: 86 % of it are the first policy's to the end.
Paper     arXiv 2506.01939 (Qwen3-8B to 32B; no pass@k). Sharp forms, ours: it is the choice, not the larger step that
          the mean over a fifth gives; it does not depend on how well the other tokens are done already. The rules and
          the case of right steps were written after a trial with 16 of the seeds.
Arms      All tokens (GRPO, clip 0.2 / 0.28, token mean); the fifth of highest entropy; the other four fifths; the plan
          tokens, known by construction. Placebos: a random fifth; all tokens with five times the step. Equal numbers of
          answers, exact ones of ten tokens: two forks of three branches, four right plans of nine, each fork with four
          steps that slip with probability 0.002, 0.02 or 0.1 at the start; a table of logits, SGD. Text: sums in eight
          spellings, a small transformer from a prior, Adam (where the size of the step cancels).
Command   python -m experiments.forking_tokens
Time      demo under seven minutes of CPU time (forty on two cores that others used as well), smoke one.
Expected  reward of all tokens, the top fifth, all with five times the step: 0.981, 0.983, 0.994 where steps are right
          already, 0.918, 0.529, 0.993 with slips of 0.1; text 0.988 and 0.925 [0.917, 0.934], a random fifth 0.958. So
          it is the step; the frozen steps are missing. Overlap at the end 1.00, 0.33, and 0.24 in text: chance is 0.2.
Doubt     If the fifth won with no larger steps, or in text where half of the tokens are below 0.01 nats, as in Qwen3:
          ours carry too much elsewhere, 0.56 of the entropy at the start.
Smoke     python -m experiments.forking_tokens --preset=smoke
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from ipsrl import study
from ipsrl.fields import one_of, positive, probability
from ipsrl.figures.layers import Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study.claims import all_of
from ipsrl.study.text_tasks import SMALL, SMOKE
from ipsrl.study.worlds.top_tokens import FIFTH, forks_curve, text_runs

ALL, TOP, REST, RANDOM, PLAN = ARMS = (
    "dapo(overlong=0)", "forking_tokens", "forking_tokens(tokens=others)", "forking_tokens(tokens=random)",
    "forking_tokens(tokens=planning)",
)  # fmt: skip
LARGER, EASY, AS_WELL, SAME = "all tokens, 5 x step", "slips 0.002", 0.01, 0.86
TASK = "addition(digits=2, problems=32)"
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
    steps: int = positive(600)
    record_every: int = positive(20)
    text: str = one_of(*TEXTS, default="demo")


PRESETS = {
    "smoke": Settings(objectives=(RANDOM,), slips=(0.02,), seeds=(0, 1), steps=40, text="smoke"),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), steps=6000, text="paper"),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    arms = {text: (text, 1.0) for text in settings.objectives} | {LARGER: (ALL, 1 / FIFTH)}
    for slip, (arm, (text, times)) in itertools.product(settings.slips, arms.items()):
        labels = {"task": f"slips {slip:g}", "objective": arm}
        yield forks_curve(slip, text, settings, labels, times * settings.learning_rate)
    in_text = dataclasses.replace(TEXTS[settings.text], objectives=settings.objectives)
    yield from text_runs(TASK, in_text).curves({"task": "text"})


def scores(arm: str, other: str, margin: float = 0.0) -> Callable[[Records], bool | None]:
    """For CLAIMS: on all tasks that have both arms, the first scores more than the other plus `margin`."""

    def decide(records: Records) -> bool | None:
        tasks = [task for _, task in records.each("task") if {arm, other} <= set(task.distinct("objective"))]
        scored = ([task.final("score", objective=each) for each in (arm, other)] for task in tasks)
        return all_of(one.exceeds(two, margin) for one, two in scored)

    return decide


def keeps_its_choice(records: Records) -> bool | None:
    return all_of(task.final("overlap", objective=TOP).exceeds(SAME) for _, task in records.each("task"))


AS_ALL = scores(TOP, ALL, -AS_WELL)
CLAIMS = {
    "the top fifth scores as well as all tokens or better (within 0.01), on all tasks": AS_ALL,
    "so it does where the steps are right already (slips 0.002)": lambda records: AS_ALL(records.where(task=EASY)),
    "the other four fifths score less than all tokens, on all tasks": scores(ALL, REST),
    "the top fifth scores more than a random fifth, on all tasks": scores(TOP, RANDOM),
    "it scores as well as all tokens with five times the step, on all exact tasks": scores(TOP, LARGER, -AS_WELL),
    "plan tokens score as well as the top fifth, on all tasks": scores(PLAN, TOP, -AS_WELL),
    "at the end the first policy would choose 86 % of the top fifth or more, on all tasks": keeps_its_choice,
}
NUMBERS = {
    f"{value} of {arm}, {task}": study.final(value, task=task, objective=arm)
    for task in (EASY, "slips 0.1", "text")
    for value, arms in {"score": (ALL, TOP, LARGER), "effective": (ALL, TOP), "overlap": (TOP,)}.items()
    for arm in arms
    if (task, arm) != ("text", LARGER)
}
TABLE = study.Table(("score", "effective", "entropy", "share", "overlap"), "{task}", rows=("objective",), each="task")
SCORE, EFFECTIVE, OVERLAP = (Line(value, markers=False) for value in ("score", "effective", "overlap"))
PANELS = [
    Panel([SCORE], "{task}", "updates", "reward"),
    Panel([EFFECTIVE], "{task}", "updates", "effective right outcomes"),
    Panel([OVERLAP, Level(SAME, "the paper's")], "{task}", "updates", "share the first policy would choose"),
]
FIGURE = Panels(PANELS, each="task")

if __name__ == "__main__":
    study.main(__name__)
