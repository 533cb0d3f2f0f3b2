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
Expected  Covered by 32 tries on bandit, trees, text (+- 0.05): GRPO 0.33, 0.39, 0.43, ARM 0.78, 0.71, 0.82, permuted
          0.36, 0.40, 0.67, IPS-GRPO 0.76, 0.79, 0.99, AR-Lopti below GRPO; pass@1 within 0.01. In text the loss alone
          has 0.66. No arm raises pass@32 (0.90, 0.93, 1.00): more tries help only where a prompt is neither solved nor
          lost. ARM with another prompt's confidence has 0.82 as well, +- 0.06.
Doubt     A model that solves new problems by another of its strategies is not in these tasks; covered stands for it. In
          text all prompts are solved, so that the refutation rests on bandit and trees, whose prompts share nothing.
Smoke     python -m experiments.answer_confidence --preset=smoke

Bandit (nine arms) and trees (nine outcomes after 3 to 8 moves): eight prompts with four right answers, a biased prior,
exact numbers. Text: a small transformer on HypoSpace, estimates from 64 answers. Covered is the share of a prompt's
right answers that k samples contain: pass@k of a test that accepts only one of them, each in turn. pass@k itself is
that of the task that was trained on.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from experiments.crossed import shares
from experiments.crossed.nine_answers import BANDIT, TEXT_RUNS, TREES, logits_for, prior, runs
from ipsrl import study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import LineOverNumbers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study import text_tasks
from ipsrl.training.text_evaluation import PASS_AT

MARGIN, TEXT = 0.02, "text"
EXACT = {"bandit": BANDIT, "trees": TREES}
ARMS = {
    "GRPO": "grpo",
    "no_shift": "progrpo(reference={}, alpha=0.0)",
    "ARM": "progrpo(reference={})",
    "permuted": "progrpo(reference={}, shifted=permuted)",
    "other_prompt": "progrpo(reference=other_prompt)",
    "AR_Lopti": "ar_lopti",
    "Lp_Reg": "lp_reg",
    "IPS_GRPO": "ips_grpo",
}


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`arms` are names of ARMS, `tasks` are bandit, trees and text; `text_steps` is the number of batches in text."""

    arms: tuple[str, ...] = one_of(*ARMS, default=tuple(ARMS))
    tasks: tuple[str, ...] = one_of(*EXACT, TEXT, default=(*EXACT, TEXT))
    seeds: tuple[int, ...] = study.seeds(tuple(range(5)), least=2)
    learning_rates: tuple[float, ...] = positive((0.1,))
    tuning_seeds: tuple[int, ...] = study.seeds((1000, 1001))
    group_size: int = at_least(2, 8)
    steps: int = positive(400)
    record_every: int = positive(100)
    text_steps: int = positive(100)


PRESETS = {
    "smoke": Settings(("GRPO", "ARM"), ("bandit",), seeds=(0, 1), steps=4, record_every=2),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10)), steps=4000, text_steps=600),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    for task in settings.tasks:
        yield from text_curves(settings) if task == TEXT else exact_curves(task, settings)


def exact_curves(task: str, settings: Settings) -> Iterator[study.Curve]:
    start = logits_for(EXACT[task], prior(pass_rate=0.1, bias=0.4))
    for arm in settings.arms:
        if arm != "other_prompt":
            trained = runs(EXACT[task], ARMS[arm].format("correct"), start[None], PASS_AT, settings)
            yield study.Curve(
                {"task": task, "objective": arm}, lambda trained=trained: trained()[0]
            )


def text_curves(settings: Settings) -> Iterator[study.TrainingRun]:
    names = {ARMS[arm].format("prompt"): arm for arm in settings.arms}
    steps = {"steps": settings.text_steps, "evaluate_every": settings.text_steps}
    flags = dataclasses.replace(TEXT_RUNS, objectives=tuple(names), seeds=settings.seeds, **steps)
    for run in text_tasks.training_grid(flags.tasks[0], flags).curves({"task": TEXT}):
        yield study.TrainingRun(
            {**run.labels, "objective": names[run.labels["objective"]]}, run.train
        )


def above(value: str, other: str, margin: float = MARGIN) -> Callable[[Records], bool | None]:
    """Whether ARM ends above another arm by a margin, on every task that has both and where the other leaves room."""

    def decide(records: Records) -> bool | None:
        tasks = [TEXT] if other == "other_prompt" else records.distinct("task")
        most = 1 - margin if value == "pass_at_32" else float("inf")
        room = [task for task in tasks if records.mean(value, task=task, objective=other) < most]
        gains = (shares.gain(value, "ARM", other, task=task)(records) for task in room)
        return study.all_of(gain.exceeds(margin) for gain in gains)

    return decide


CLAIMS = {
    "ARM's pass@1 is GRPO's or better: at most 0.02 below, on every task": above(
        "pass_at_1", "GRPO", -MARGIN
    ),
    "ARM's pass@32 is more than 0.02 above GRPO's, on every task where GRPO's is below 0.98": above(
        "pass_at_32", "GRPO"
    ),
    "ARM covers more than 0.02 more of the right answers in 32 tries than GRPO, on every task": above(
        "covered_at_32", "GRPO"
    ),
    "ARM keeps more than 0.1 effective right answers more than GRPO, on every task": above(
        "effective_outcomes", "GRPO", 0.1
    ),
    "it is the shift: ARM covers more than 0.02 more than its loss without a shift, on every task": above(
        "covered_at_32", "no_shift"
    ),
    "it is the answer's confidence: ARM covers more than 0.02 more than with permuted shifts, on every task": above(
        "covered_at_32", "permuted"
    ),
    "it is the prompt's confidence: ARM covers more than 0.02 more than with another prompt's, in text": above(
        "covered_at_32", "other_prompt"
    ),
}
WORDS = {
    "pass_at_1": "pass@1",
    "pass_at_32": "pass@32",
    "covered_at_32": "right answers covered by 32 tries",
}
OTHERS = {
    "GRPO": "GRPO",
    "no_shift": "ARM without its shift",
    "permuted": "permuted shifts",
    "IPS_GRPO": "IPS-GRPO",
    "other_prompt": "another prompt's confidence",
}
NUMBERS = {
    f"{WORDS[value]}, ARM - {OTHERS[other]}, {task}": shares.gain(value, "ARM", other, task=task)
    for value, other, task in itertools.product(WORDS, OTHERS, (*EXACT, TEXT))
    if other != "other_prompt" or task == TEXT
}
COLUMNS = [f"{value}_at_{k}" for value in ("pass", "covered") for k in (1, 32, 64)] + [
    "effective_outcomes"
]
TABLE = study.Table(COLUMNS, rows=("objective",), each="task", title="{task}", decimals=3)
PANELS = [
    Panel(
        [LineOverNumbers(value, "k", where={"task": task}, numbers=PASS_AT)],
        task,
        "k",
        f"{value} at k",
        xscale="log2",
    )
    for value, task in itertools.product(("pass", "covered"), (*EXACT, TEXT))
]
FIGURE = Panels(PANELS, columns=3)

if __name__ == "__main__":
    study.main(__name__)
