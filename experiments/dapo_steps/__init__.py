"""DAPO changes five things in GRPO: does each of them add something, at equal sampled tokens?

Claim     No KL penalty, a higher upper clip, the mean over all tokens, the punishment of overlong answers and dynamic
          sampling each add something; together they lift GRPO (on AIME24, 32B, from 30 to 50).
Paper     DAPO, arXiv 2503.14476; its cumulative ablation is second-hand. GRPO has the KL of its paper, 0.04
          (2402.03300). Our reading: rewards are 1 and 0, not 1 and -1, so that the punishment has half the weight.
Arms      Each step is added to GRPO alone, added in turn to those before it, and left out of DAPO: its gain is the mean
          of the two or three different ones among these differences, seed by seed. Placebo: GRPO and DAPO with other
          seeds. Two passes over two mini-batches, so that clips act. Each arm has the best of five learning rates,
          chosen on the seeds that are reported, as others would double the cost. All sampled tokens count, those that
          are thrown away included. Accuracy is exact, on questions of 1 to 12 steps (`worked_answers`).
Command   python -m experiments.dapo_steps
Time      demo nine CPU minutes, smoke a quarter of one; paper, not run, hours.
Expected  gain in accuracy (12 seeds, +- 0.06): no KL 0.20, higher clip 0.01, mean over tokens 0.02, punishment -0.03,
          dynamic sampling -0.06, other seeds 0.01. GRPO ends at 0.68, DAPO at 0.81, GRPO without the KL penalty at
          0.97: DAPO's gain is that of the missing penalty, and its other steps, with fewer updates, cost some of it.
Doubt     Right answers of hundreds of tokens, where the mean over tokens and punishment count; rates above DAPO's 0.8.
Smoke     python -m experiments.dapo_steps --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator

import numpy as np

from experiments.dapo_steps.ablation import Ablation
from experiments.dapo_steps.worked_answers import WorkedAnswers
from experiments.exams.exam import Discard, budgeted_runs, of_best_rate
from ipsrl import objectives, study
from ipsrl.fields import one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.shaping.reward_costs import OverlongPunishment
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.claims import above, close
from ipsrl.study.numbers import Number
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching

PLACEBO, POINTS = "other_seeds", 21
NAMES = {
    "no_KL": "no KL penalty",
    "higher_clip": "the higher upper clip",
    "overlong": "the punishment of overlong answers",
    "token_mean": "the mean over tokens",
    "dynamic": "dynamic sampling",
    PLACEBO: "other seeds",
}
STEPS = tuple(NAMES)[:-1]
ABLATION, FIRST = Ablation("GRPO", "DAPO", STEPS), "GRPO_plus_no_KL"
PLACES = ABLATION.alone, ABLATION.left_out
ARMS = (*ABLATION.arms, f"GRPO_{PLACEBO}", f"DAPO_{PLACEBO}")
TASK = WorkedAnswers.from_short_to_long()


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
            place: (f"{arm}_{PLACEBO}", arm)
            for place, arm in zip(PLACES, ("GRPO", "DAPO"), strict=True)
        }
    return ABLATION.pairs(step)


def curves(settings: Settings) -> Iterator[study.Curve]:
    needed = dict.fromkeys(
        arm for step in NAMES for both in pairs(step).values() for arm in both[::-1]
    )
    for arm in settings.arms or needed:
        steps = ABLATION.arms[arm.removesuffix(f"_{PLACEBO}")]
        yield study.Curve(
            {"arm": arm}, functools.partial(points, steps, arm.endswith(PLACEBO), settings)
        )


def objective(steps: tuple[str, ...]) -> Objective:
    """GRPO with some of DAPO's steps; dynamic sampling is not one of the objective."""
    clip, kl = "(0.2, 0.28)" if "higher_clip" in steps else "0.2", 0.0 if "no_KL" in steps else 0.04
    mean = "token_mean" if "token_mean" in steps else "sequence_mean"
    made = objectives.make(f"grpo(clip={clip}, kl={kl}, aggregation={mean})")
    return (
        dataclasses.replace(made, reward_shaping=(OverlongPunishment(0.5),))
        if "overlong" in steps
        else made
    )


def points(steps: tuple[str, ...], other_seeds: bool, settings: Settings) -> study.Points:
    """Measures at equal numbers of sampled tokens, with the learning rate that ends with the highest mean accuracy."""
    training = TrainSettings(
        settings.updates,
        settings.prompts_per_step,
        settings.group_size,
        max_gradient_norm=None,
        batching=Batching(epochs=2, mini_batches=2),
    )
    wrappers = (Discard(),) if "dynamic" in steps else ()
    grid = settings.learning_rates, [seed + 1000 * other_seeds for seed in settings.seeds]
    runs = budgeted_runs(
        TASK, TASK.measures, TASK.prior(), objective(steps), training, wrappers, *grid
    )
    places = np.linspace(0, settings.tokens, POINTS)
    best = of_best_rate(runs, "accuracy", "tokens", places, settings.learning_rates)
    return study.Points(places.astype(int), best, settings.seeds)


def added(records: Records, more: str, less: str) -> np.ndarray:
    """`[S]`, by how much one arm ends above another."""
    return records.ends("accuracy", arm=more) - records.ends("accuracy", arm=less)


def gain(*both: tuple[str, str]) -> Number:
    """For NUMBERS: by how much the first arm of a pair ends above the second, as a mean over all different pairs."""
    return lambda records: interval_of(
        np.mean([added(records, *each) for each in dict.fromkeys(both)], axis=0)
    )


GAINS = {step: gain(*pairs(step).values()) for step in NAMES}
CLAIMS = {
    f"{NAMES[step]} adds more than 0.01 to the accuracy": above(GAINS[step], 0.01) for step in STEPS
} | {
    "DAPO, all five together, ends more than 0.01 above GRPO in accuracy": above(
        gain(("DAPO", "GRPO")), 0.01
    ),
    "DAPO ends more than 0.01 above GRPO with no KL penalty in accuracy": above(
        gain(("DAPO", FIRST)), 0.01
    ),
    "placebo: other seeds change the accuracy by less than 0.01": lambda r: close(
        GAINS[PLACEBO](r), 0.0, 0.01
    ),
}
NUMBERS = {f"accuracy that is added by {NAMES[step]}": more for step, more in GAINS.items()}
ENDS = {"GRPO": "GRPO", "GRPO with no KL penalty": FIRST, "DAPO": "DAPO"}
NUMBERS |= {f"accuracy of {name}": study.final("accuracy", arm=arm) for name, arm in ENDS.items()}
NUMBERS["accuracy of DAPO - GRPO with no KL penalty"] = gain(("DAPO", FIRST))
TABLE = study.Table(
    ("accuracy", "length", "right_length", "learning_rate", "prompt_survival"),
    "after {tokens} tokens",
)


def figure(records: Records, settings: Settings) -> Drawing:
    in_turn = [row for arm in ABLATION.in_turn for row in records.where(arm=arm).rows]
    gains = [
        {"place": place, "taken": step, "seed": seed, "gain": more}
        for step, place in itertools.product(NAMES, PLACES)
        if set(pairs(step)[place]) <= set(records.distinct("arm"))
        for seed, more in enumerate(added(records, *pairs(step)[place]))
    ]
    return PANELS(Records([*in_turn, *gains], ("arm", "place", "taken")), settings)


TURNS = Panel(
    [Line("accuracy", by="arm")], "each step in turn", "sampled tokens", "accuracy", width=1.5
)
BARS = [
    Panel([Bars("gain", by="taken", where={"place": place})], place, "accuracy") for place in PLACES
]
FIGURE, PANELS = figure, Panels([TURNS, *BARS])
