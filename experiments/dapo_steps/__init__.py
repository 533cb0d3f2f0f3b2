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
Expected  12 seeds: leaving the KL penalty out adds 0.17 [0.12, 0.23], the punishment costs 0.05, dynamic sampling 0.09.
          GRPO ends at 0.68, without the KL penalty at 0.97. So DAPO's gain is that of the missing penalty, and its
          other steps, with fewer updates, cost some of it. Other seeds of DAPO end 0.05 higher: not all that looks
          like a step is one.
Doubt     Right answers of hundreds of tokens, where the mean over tokens and punishment count; rates above DAPO's 0.8.
Smoke     python -m experiments.dapo_steps --preset=smoke
"""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from experiments.dapo_steps.ablation import Ablation
from experiments.dapo_steps.worked_answers import WorkedAnswers
from experiments.exams.exam import BudgetedRuns, Discard, trainer_for
from ipsrl import objectives, study
from ipsrl.fields import one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.shaping.reward_costs import OverlongPunishment
from ipsrl.records.tidy import Records
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
ABLATION = Ablation("GRPO", "DAPO", STEPS)
PLACES = (ABLATION.alone, ABLATION.left_out)
ARMS = (*ABLATION.arms, f"GRPO_{PLACEBO}", f"DAPO_{PLACEBO}")
TASK = WorkedAnswers.from_short_to_long()
POINTS = 21


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`arms` are all by default; `tokens` is the budget, `updates` a number of batches that is enough to spend it."""

    arms: tuple[str, ...] = study.selecting(one_of(*ARMS, default=()))
    seeds: tuple[int, ...] = study.seeds(tuple(range(12)), least=2)
    learning_rates: tuple[float, ...] = positive((0.05, 0.1, 0.2, 0.4, 0.8))
    prompts_per_step: int = positive(16)
    group_size: int = positive(8)
    tokens: int = positive(30_000)
    updates: int = positive(90)


PRESETS = {
    "smoke": Settings(
        ("GRPO", f"GRPO_{PLACEBO}"), seeds=(0, 1), learning_rates=(0.1,), tokens=1000, updates=4
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), group_size=16, tokens=120_000, updates=360),
}


def pairs(step: str) -> dict[str, tuple[str, str]]:
    """Where a step is taken -> the arms with and without it."""
    if step == PLACEBO:
        return {
            ABLATION.alone: (f"GRPO_{PLACEBO}", "GRPO"),
            ABLATION.left_out: (f"DAPO_{PLACEBO}", "DAPO"),
        }
    return ABLATION.pairs(step)


PAIRS = {step: pairs(step) for step in (*STEPS, PLACEBO)}


def curves(settings: Settings) -> Iterator[study.Curve]:
    needed = dict.fromkeys(
        arm for of_step in PAIRS.values() for more, less in of_step.values() for arm in (less, more)
    )
    places = np.linspace(0, settings.tokens, POINTS)
    for arm in settings.arms or needed:
        yield from runs(arm, settings).curves({"arm": arm}, "tokens", places)


def runs(arm: str, settings: Settings) -> BudgetedRuns:
    steps = ABLATION.arms[arm.removesuffix(f"_{PLACEBO}")]
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
    """By how much the accuracy of one arm ends above another's, each at its best learning rate."""
    return study.Best(study.difference("accuracy", {"arm": more}, {"arm": less}), "accuracy")


def gain(step: str) -> study.Number:
    """What a step adds to the accuracy, as a mean over the different pairs of arms with and without it."""
    first, *others = [ends_above(*pair) for pair in dict.fromkeys(PAIRS[step].values())]
    return sum(others, start=first) / (1 + len(others))


CLAIMS = {
    f"{name} adds more than 0.01 to the accuracy": above(gain(step), 0.01)
    for step, name in NAMES.items()
}
CLAIMS |= {
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
    decided_by=(
        "no KL penalty adds more than 0.01 to the accuracy",
        "the higher upper clip adds more than 0.01 to the accuracy",
        "the punishment of overlong answers adds more than 0.01 to the accuracy",
        "the mean over tokens adds more than 0.01 to the accuracy",
        "dynamic sampling adds more than 0.01 to the accuracy",
    ),
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
    in_turn = [row for arm in ABLATION.in_turn for row in best.where(arm=arm).rows]
    gains = [
        {"place": place, "taken": step, "seed": seed, "gain": gain}
        for step, place in itertools.product(PAIRS, PLACES)
        for seed, gain in gains_of(best, *PAIRS[step][place]).items()
    ]
    return PANELS(Records([*in_turn, *gains], ("arm", "place", "taken")), settings)


def gains_of(records: Records, more: str, less: str) -> dict[int, float]:
    """Seed -> by how much one arm ends above another; empty if one is not recorded."""
    if not {more, less} <= set(records.distinct("arm")):
        return {}
    found = records.ends("accuracy", arm=more) - records.ends("accuracy", arm=less)
    return dict(zip(records.distinct("seed"), found, strict=True))


TURNS = Panel(
    [Line("accuracy", by="arm")], "each step in turn", "sampled tokens", "accuracy", width=1.5
)
BARS = [
    Panel([Bars("gain", by="taken", where={"place": place})], place, "accuracy") for place in PLACES
]
PANELS = Panels([TURNS, *BARS])
