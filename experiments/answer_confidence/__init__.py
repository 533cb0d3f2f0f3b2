"""Answer confidence: does ARM (ProGRPO) keep several right answers, and is it the confidence that does it?

Claim     GRPO reinforces the likeliest right answer most. ARM, which subtracts the policy's confidence in each answer
          from its advantage, equalises right answers: pass@k and entropy above GRPO's, at equal pass@1. The prompt's
          confidence sets the level, so that hard prompts are treated otherwise than easy ones.
Paper     arXiv 2602.05281 (v2), by second-hand accounts: 7B models gain 5.7 points of pass@1 and 13.9 of pass@32 over
          GRPO. Our reading: weight 0.3, the fifth of an answer's tokens that is least likely, all answers shifted. The
          biased prior was chosen after trial runs.
Arms      GRPO; ARM's loss without its shift (clip 0.2 / 0.28, mean over tokens); ARM; ARM with the shifts of a group's
          right answers permuted among them (placebo); AR-Lopti, which damps unlikely tokens; Lp-Reg, which protects
          them; IPS-GRPO. In text also ARM with the confidence of another prompt (placebo). Tables have no prompt to be
          sure of: their level is the mean confidence of the group's right answers. All arms sample equally much.
Command   python -m experiments.answer_confidence
Time      demo 8 minutes of CPU time (27 on two very busy cores), smoke under half a minute of CPU time.
Expected  Right answers of the trees that as many tries cover (+- 0.05): GRPO 0.39, ARM 0.71, with permuted shifts 0.40,
          IPS-GRPO 0.79; the bandit is alike. So the shift of each answer keeps several. In text permuted shifts keep
          much, and another prompt's confidence does as well as the own one. Pass@1 and pass@32 are GRPO's on every
          task, to 0.02: more tries help only where a prompt is neither solved nor lost.
Doubt     A model that solves new problems by another of its strategies is not in these tasks; covered stands for it. In
          text all prompts are solved, so that the refutation rests on bandit and trees, whose prompts share nothing.
Smoke     python -m experiments.answer_confidence --preset=smoke

Bandit (nine arms) and trees (nine outcomes after 3 to 8 moves): eight prompts with four right answers, a biased prior,
exact numbers. Text: a small transformer on HypoSpace, estimates from 64 answers. Covered is the share of a prompt's
right answers that k samples contain: pass@k of a test that accepts only one of them, each in turn. pass@k itself is
that of the task that was trained on.
"""

import dataclasses
import functools
import itertools

from experiments.crossed import nine_answers
from experiments.crossed.nine_answers import BANDIT, SCORE, TEXT_RUNS, TREES, at_best
from ipsrl import study
from ipsrl.checking.fields import any_of, positive
from ipsrl.figures.layers import LineOverNumbers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import text_tasks
from ipsrl.study.claims import above, at_each, some
from ipsrl.study.tuning import of_best
from ipsrl.training.text_evaluation import PASS_AT

MARGIN = 0.02
TEXT = "text"
EXACT = {"bandit": BANDIT, "trees": TREES}
TASKS = (*EXACT, TEXT)
OTHER_PROMPT = "other_prompt"
ARMS = {
    "GRPO": "grpo",
    "no_shift": "progrpo(reference={level}, alpha=0.0)",
    "ARM": "progrpo(reference={level})",
    "permuted": "progrpo(reference={level}, shifted=permuted)",
    OTHER_PROMPT: "progrpo(reference=other_prompt)",
    "AR_Lopti": "ar_lopti",
    "Lp_Reg": "lp_reg",
    "IPS_GRPO": "ips_grpo",
}


@dataclasses.dataclass(frozen=True)
class Settings(nine_answers.Settings):
    """`arms` are names of ARMS, `tasks` are bandit, trees and text; `text_steps` is the number of batches in text."""

    arms: tuple[str, ...] = any_of(ARMS)
    tasks: tuple[str, ...] = any_of(TASKS)
    text_steps: int = positive(100)


PRESETS = {
    "smoke": Settings(
        arms=("GRPO", "ARM"), tasks=("bandit",), seeds=(0, 1), steps=4, record_every=2
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10)), steps=4000, text_steps=600),
}


def curves(settings: Settings) -> study.Curves:
    for task in settings.tasks:
        yield from text_curves(settings) if task == TEXT else exact_curves(task, settings)


def exact_curves(task: str, settings: Settings) -> study.Curves:
    start = nine_answers.logits_for(EXACT[task], nine_answers.prior(pass_rate=0.1, bias=0.4))
    for arm in settings.arms:
        if arm != OTHER_PROMPT:
            objective = ARMS[arm].format(level="correct")
            starts = [({"task": task, "objective": arm}, start)]
            yield from nine_answers.curves(EXACT[task], objective, starts, PASS_AT, settings)


def text_curves(settings: Settings) -> study.Curves:
    names = {ARMS[arm].format(level="prompt"): arm for arm in settings.arms}
    flags = dataclasses.replace(
        TEXT_RUNS,
        objectives=tuple(names),
        seeds=settings.seeds,
        steps=settings.text_steps,
        evaluate_every=settings.text_steps,
    )
    for run in text_tasks.training_grid(flags.tasks[0], flags).curves({"task": TEXT}):
        arm = names[run.labels["objective"]]
        yield study.TrainingRun({**run.labels, "objective": arm}, run.train)


def gain(value: str, other: str) -> study.Number:
    """The value of ARM at the end less that of another arm, each at its best learning rate."""
    return at_best(study.difference(value, {"objective": "ARM"}, {"objective": other}))


covers_more = functools.partial(gain, "covered_at_32")
on_every_task = functools.partial(at_each, "task")
GRPO_SOLVES_ALL = above(at_best(study.final("pass_at_32", objective="GRPO")), 1 - MARGIN)
CLAIMS = {
    "ARM's pass@1 is GRPO's or better: at most 0.02 below, on every task": on_every_task(
        above(gain("pass_at_1", "GRPO"), -MARGIN)
    ),
    "ARM's pass@32 is more than 0.02 above GRPO's, on every task where GRPO's is below 0.98": on_every_task(
        some([GRPO_SOLVES_ALL, above(gain("pass_at_32", "GRPO"), MARGIN)])
    ),
    "ARM covers more than 0.02 more of the right answers in 32 tries than GRPO, on every task": on_every_task(
        above(covers_more("GRPO"), MARGIN)
    ),
    "ARM keeps more than 0.1 effective right answers more than GRPO, on every task": on_every_task(
        above(gain("effective_outcomes", "GRPO"), 0.1)
    ),
    "it is the shift: ARM covers more than 0.02 more than its loss without a shift, on every task": on_every_task(
        above(covers_more("no_shift"), MARGIN)
    ),
    "it is the answer's confidence: ARM covers more than 0.02 more than with permuted shifts, on every task": (
        on_every_task(above(covers_more("permuted"), MARGIN))
    ),
    "it is the prompt's confidence: ARM covers more than 0.02 more than with another prompt's, in text": study.among(
        above(covers_more(OTHER_PROMPT), MARGIN), task=TEXT
    ),
}
HEADLINE = study.Headline(
    subject="Entropy and exploration",
    claim=(
        "Subtracting the policy's confidence in each answer (ARM) keeps more right answers "
        "than GRPO, at equal pass@1."
    ),
    scope="bandits, trees and small transformers, eight prompts with nine answers",
    decided_by=(
        "ARM's pass@1 is GRPO's or better: at most 0.02 below, on every task",
        "ARM covers more than 0.02 more of the right answers in 32 tries than GRPO, on every task",
        (
            "it is the answer's confidence: ARM covers more than 0.02 more than with permuted "
            "shifts, on every task"
        ),
    ),
)
COLUMNS = [f"{value}_at_{k}" for value in ("pass", "covered") for k in (1, 32, 64)] + [
    "effective_outcomes"
]
TABLE = of_best(
    study.Table(COLUMNS, rows=("objective",), each="task", title="{task}", decimals=3), SCORE
)
PANELS = [
    Panel(
        [LineOverNumbers(value, "k", where={"task": task}, numbers=PASS_AT)],
        task,
        "k",
        f"{value} at k",
        xscale="log2",
    )
    for value, task in itertools.product(("pass", "covered"), TASKS)
]
FIGURE = of_best(Panels(PANELS, columns=3), SCORE)
