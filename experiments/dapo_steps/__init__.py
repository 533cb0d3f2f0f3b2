"""DAPO changes five things in GRPO: does each of them add something, at equal sampled tokens?

Claim     No KL penalty, a higher upper clip, the mean over all tokens, the punishment of overlong answers and dynamic
          sampling each add something; together they lift GRPO (on AIME24, 32B, from 30 to 50).
Paper     DAPO, arXiv 2503.14476; its cumulative ablation is second-hand. GRPO has the KL of its paper, 0.04
          (2402.03300). Our reading: rewards are 1 and 0, not 1 and -1, so that the punishment has half the weight.
Arms      Each step is added to GRPO alone, added in turn to those before it, and left out of DAPO: its gain is the mean
          of the two or three different ones among these differences, seed by seed. Placebo: GRPO and DAPO with other
          seeds. Two passes over two mini-batches, so that clips act. Each half of the seeds has the one of five
          learning rates that is best for the other half. All sampled tokens count, those that are thrown away included.
          Accuracy is exact, on questions of 1 to 12 steps (`worked_answers`).
Command   python -m experiments.dapo_steps
Time      demo nine CPU minutes, smoke a quarter of one; paper, not run, hours.
Expected  Leaving the KL penalty out adds 0.17 [0.12, 0.23] to the accuracy; the punishment costs 0.05 [0.004, 0.09],
          dynamic sampling 0.09 [0.01, 0.16]. GRPO ends at 0.68, without the KL penalty at 0.97. So DAPO's gain is that
          of the missing penalty, and its other steps, with fewer updates, cost some of it.
Doubt     Right answers of hundreds of tokens, where the mean over tokens and punishment count; rates above DAPO's 0.8.
Smoke     python -m experiments.dapo_steps --preset=smoke
"""

import contextlib
import dataclasses
import itertools

import numpy as np

from experiments.dapo_steps.worked_answers import WorkedAnswers
from experiments.exams.exam import BudgetedRuns, Discard, trainer_for
from ipsrl import objectives, study
from ipsrl.checking.fields import one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.objectives.catalog.expected_return import OverlongPunishment
from ipsrl.objectives.objective import Objective
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study.claims import above, near
from ipsrl.study.tuning import best_for_others, of_best
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching

PLACEBO = "other_seeds"
NAMES = {
    "no_KL": "no KL penalty",
    "higher_clip": "the higher upper clip",
    "overlong": "the punishment of overlong answers",
    "token_mean": "the mean over tokens",
    "dynamic": "dynamic sampling",
}
STEPS = tuple(NAMES)
"""The steps, in the order in which they are added in turn."""
ALONE, IN_TURN, LEFT_OUT = "added to GRPO", "in turn", "left out of DAPO"
TASK = WorkedAnswers.from_short_to_long()
POINTS = 21


def arm_with(*steps: str) -> str:
    """The name of the arm with these of DAPO's steps, which are given in their order."""
    missing = [step for step in STEPS if step not in steps]
    if len(missing) < 2:
        return "_without_".join(("DAPO", *missing))
    return "_plus_".join(("GRPO", *steps))


STEPS_OF = {
    arm_with(*steps): steps
    for number in range(len(STEPS) + 1)
    for steps in itertools.combinations(STEPS, number)
}
"""Arm -> its steps."""
TURNS = [arm_with(*STEPS[:number]) for number in range(len(STEPS) + 1)]
"""The arms from GRPO to DAPO, a step at a time."""


def pairs(step: str) -> dict[str, tuple[str, str]]:
    """Where a step is taken -> the arms with and without it: alone, in its turn, and as the last one missing."""
    turn, others = STEPS.index(step), [other for other in STEPS if other != step]
    return {
        ALONE: (arm_with(step), "GRPO"),
        IN_TURN: (TURNS[turn + 1], TURNS[turn]),
        LEFT_OUT: ("DAPO", arm_with(*others)),
    }


AGAIN = {"GRPO": f"GRPO_{PLACEBO}", "DAPO": f"DAPO_{PLACEBO}"}
PAIRS = {step: pairs(step) for step in STEPS}
PAIRS[PLACEBO] = {ALONE: (AGAIN["GRPO"], "GRPO"), LEFT_OUT: (AGAIN["DAPO"], "DAPO")}


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`arms` are all by default; `tokens` is the budget, `updates` a number of batches that is enough to spend it."""

    arms: tuple[str, ...] = study.selecting(one_of(*STEPS_OF, *AGAIN.values(), default=()))
    seeds: tuple[int, ...] = study.seeds(range(12), least=2)
    learning_rates: tuple[float, ...] = positive((0.05, 0.1, 0.2, 0.4, 0.8))
    prompts_per_step: int = positive(16)
    group_size: int = positive(8)
    tokens: int = positive(30_000)
    updates: int = positive(90)


PRESETS = {
    "smoke": Settings(
        ("GRPO", AGAIN["GRPO"]), seeds=(0, 1), learning_rates=(0.1,), tokens=1000, updates=4
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), group_size=16, tokens=120_000, updates=360),
}


def curves(settings: Settings) -> study.Curves:
    needed = dict.fromkeys(
        arm for of_step in PAIRS.values() for more, less in of_step.values() for arm in (less, more)
    )
    places = np.linspace(0, settings.tokens, POINTS)
    for arm in settings.arms or needed:
        yield from runs(arm, settings).curves({"arm": arm}, "tokens", places)


def runs(arm: str, settings: Settings) -> BudgetedRuns:
    steps = STEPS_OF[arm.removesuffix(f"_{PLACEBO}")]
    training = TrainSettings(
        settings.updates,
        settings.prompts_per_step,
        settings.group_size,
        max_gradient_norm=None,
        batching=Batching(epochs=2, mini_batches=2),
    )
    filters = [Discard()] if "dynamic" in steps else []
    return BudgetedRuns(
        trainer_for(TASK, objective(steps), training, filters),
        TASK.measures,
        TASK.prior(),
        settings.learning_rates,
        settings.seeds,
        seed_offset=1000 if arm.endswith(PLACEBO) else 0,
    )


def objective(steps: tuple[str, ...]) -> Objective:
    """GRPO with some of DAPO's steps; dynamic sampling is not one of the objective."""
    clip = "(0.2, 0.28)" if "higher_clip" in steps else "0.2"
    kl = 0.0 if "no_KL" in steps else 0.04
    mean = "token_mean" if "token_mean" in steps else "sequence_mean"
    made = objectives.make(f"grpo(clip={clip}, kl={kl}, aggregation={mean})")
    if "overlong" not in steps:
        return made
    return dataclasses.replace(made, reward_shaping=(OverlongPunishment(0.5),))


def ends_above(more: str, less: str) -> study.Number:
    """The accuracy of one arm at the end less that of another, each at its best learning rate."""
    return study.Best(study.difference("accuracy", {"arm": more}, {"arm": less}), "accuracy")


def gain(step: str) -> study.Number:
    """The accuracy that a step adds: the mean over the different pairs of arms with and without it."""
    first, *others = [ends_above(*pair) for pair in dict.fromkeys(PAIRS[step].values())]
    return sum(others, start=first) / (1 + len(others))


EACH = {
    f"{name} adds more than 0.01 to the accuracy": above(gain(step), 0.01)
    for step, name in NAMES.items()
}
CLAIMS = EACH | {
    "DAPO, all five together, ends more than 0.01 above GRPO in accuracy": above(
        ends_above("DAPO", "GRPO"), 0.01
    ),
    "DAPO ends more than 0.01 above GRPO with no KL penalty in accuracy": above(
        ends_above("DAPO", "GRPO_plus_no_KL"), 0.01
    ),
    "placebo: other seeds change the accuracy by less than 0.01": near(gain(PLACEBO), 0.0, 0.01),
}
HEADLINE = study.Headline(
    subject="Groups, prompts and budgets",
    claim="Each of DAPO's five changes to GRPO adds accuracy, at equal sampled tokens.",
    scope="an exam in a table of logits",
    decided_by=tuple(EACH),
)
TABLE = of_best(
    study.Table(
        ("accuracy", "length", "right_length", "learning_rate", "prompt_survival"),
        "after {tokens} tokens",
    ),
    "accuracy",
)


def FIGURE(records: Records, settings: Settings) -> Drawing:
    best = best_for_others(records, "accuracy")
    rows = [row for arm in TURNS for row in best.where(arm=arm).rows]
    for step, place in itertools.product(PAIRS, (ALONE, LEFT_OUT)):
        with contextlib.suppress(NotRecorded):
            gains = ends_above(*PAIRS[step][place]).of_seeds(records)
            for seed, gain in zip(gains.seeds, gains.values, strict=True):
                rows.append({"place": place, "taken": step, "seed": seed, "gain": gain})
    return PANELS(Records(rows, ("arm", "place", "taken")), settings)


COURSES = Panel(
    [Line("accuracy", by="arm")], "each step in turn", "sampled tokens", "accuracy", width=1.5
)
BARS = [
    Panel([Bars("gain", by="taken", where={"place": place})], place, "accuracy")
    for place in (ALONE, LEFT_OUT)
]
PANELS = Panels([COURSES, *BARS])
