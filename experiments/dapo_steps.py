"""DAPO changes five things in GRPO: does each of them add something, at equal sampled tokens?

Claim     No KL penalty, a higher upper clip, the mean over all tokens, the punishment of overlong answers and dynamic
          sampling each add something; together they lift GRPO (on AIME24, 32B, from 30 to 50).
Paper     DAPO, arXiv 2503.14476; its cumulative ablation is second-hand. GRPO has the KL of its paper, 0.04
          (2402.03300). Our reading: rewards are 1 and 0, not 1 and -1, so that the punishment has half the weight.
Arms      Each step is added to GRPO alone, added in turn to those before it, and left out of DAPO: its gain is the mean
          of the three differences, seed by seed. Placebo: GRPO and DAPO with other seeds, a step that cannot add
          anything. Four optimiser steps on a batch (two passes, two mini-batches), so that clips act; each arm has the
          best of five learning rates. All sampled tokens count, those that dynamic sampling throws away included.
          Accuracy is exact, on questions that need 1 to 12 right steps: `ipsrl.study.worlds.worked_answers`.
Command   python -m experiments.dapo_steps
Time      demo nine CPU minutes, smoke a quarter of one; paper, not run, hours.
Expected  gain in accuracy, twelve seeds: no KL 0.23 [0.18, 0.28], higher clip 0.01 [-0.01, 0.03], mean over tokens 0.02
          [-0.02, 0.06], punishment -0.03 [-0.06, -0.00], dynamic sampling -0.08 [-0.15, -0.01], other seeds 0.01
          [-0.04, 0.06]. GRPO ends at 0.68, DAPO at 0.81: the gain is that of the missing KL penalty. Dynamic sampling
          buys fewer updates with the same tokens.
Doubt     A task whose right answers are hundreds of tokens long: the mean over tokens and the punishment count there.
Smoke     python -m experiments.dapo_steps --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ipsrl import objectives, study
from ipsrl.fields import positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.shaping.reward_costs import OverlongPunishment
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.ablation import Ablation
from ipsrl.study.worlds.exams import Discard, budgeted_runs, of_best_rate
from ipsrl.study.worlds.worked_answers import WorkedAnswers
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching

STEPS = ("no_KL", "higher_clip", "overlong", "token_mean", "dynamic")
PLACEBO, POINTS = "other_seeds", 21
ABLATION = Ablation("GRPO", "DAPO", STEPS)
PLACES = ABLATION.alone, ABLATION.left_out
TASK = WorkedAnswers.from_short_to_long()


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`arms` are all by default; `tokens` is the budget, `updates` a number of batches that is enough to spend it."""

    arms: tuple[str, ...] = study.selecting(())
    seeds: tuple[int, ...] = study.seeds(tuple(range(12)), least=2)
    learning_rates: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8)
    prompts_per_step: int = positive(16)
    group_size: int = positive(8)
    tokens: int = positive(30_000)
    updates: int = positive(90)


PRESETS = {
    "smoke": Settings(("GRPO", f"GRPO_{PLACEBO}"), seeds=(0, 1), learning_rates=(0.1,), tokens=1000, updates=4),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), group_size=16, tokens=120_000, updates=360),
}


def pairs(step: str) -> dict[str, tuple[str, str]]:
    """Where a step is taken -> the arms with and without it."""
    if step == PLACEBO:
        return {place: (f"{arm}_{PLACEBO}", arm) for place, arm in zip(PLACES, ("GRPO", "DAPO"), strict=True)}
    return ABLATION.pairs(step)


def curves(settings: Settings) -> Iterator[study.Curve]:
    needed = dict.fromkeys(arm for step in (*STEPS, PLACEBO) for both in pairs(step).values() for arm in both[::-1])
    for arm in settings.arms or needed:
        steps = ABLATION.arms[arm.removesuffix(f"_{PLACEBO}")]
        yield study.Curve({"arm": arm}, functools.partial(points, steps, arm.endswith(PLACEBO), settings))


def objective(steps: tuple[str, ...]) -> Objective:
    """GRPO with some of DAPO's steps; dynamic sampling is not one of the objective."""
    clip, kl = "(0.2, 0.28)" if "higher_clip" in steps else "0.2", 0.0 if "no_KL" in steps else 0.04
    mean = "token_mean" if "token_mean" in steps else "sequence_mean"
    made = objectives.make(f"grpo(clip={clip}, kl={kl}, aggregation={mean})")
    return dataclasses.replace(made, reward_shaping=(OverlongPunishment(0.5),)) if "overlong" in steps else made


def points(steps: tuple[str, ...], other_seeds: bool, settings: Settings) -> study.Points:
    """Measures at equal numbers of sampled tokens, with the learning rate that ends with the highest mean accuracy."""
    training = TrainSettings(
        settings.updates, settings.prompts_per_step, settings.group_size, max_gradient_norm=None,
        batching=Batching(epochs=2, mini_batches=2),
    )  # fmt: skip
    wrappers = (Discard(),) if "dynamic" in steps else ()
    grid = settings.learning_rates, [seed + 1000 * other_seeds for seed in settings.seeds]
    runs = budgeted_runs(TASK, TASK.measures, TASK.prior(), objective(steps), training, wrappers, *grid)
    places = np.linspace(0, settings.tokens, POINTS)
    best = of_best_rate(runs, "accuracy", "tokens", places, settings.learning_rates)
    return study.Points(places.astype(int), best, settings.seeds)


def added(records: Records, more: str, less: str) -> np.ndarray:
    """`[S]`, by how much one arm ends above another."""
    return records.ends("accuracy", arm=more) - records.ends("accuracy", arm=less)


def gain(step: str) -> Callable[[Records], Interval]:
    """For NUMBERS: the accuracy that a step adds, as a mean over the places where it is taken."""
    return lambda records: interval_of(np.mean([added(records, *both) for both in pairs(step).values()], axis=0))


def adds(step: str, records: Records) -> bool | None:
    """True if the gain's interval lies above 0, False if it lies below one point of accuracy."""
    interval = gain(step)(records)
    return interval.exceeds(0.0) or interval.exceeds(0.01)


CLAIMS = {f"{step} adds accuracy": functools.partial(adds, step) for step in STEPS} | {
    "all together: DAPO ends above GRPO": lambda r: interval_of(added(r, "DAPO", "GRPO")).exceeds(0.0),
    "placebo: other seeds add nothing": lambda r: gain(PLACEBO)(r).exceeds(0.0) is None,
}
NUMBERS = {f"gain of {step}": gain(step) for step in (*STEPS, PLACEBO)} | {
    arm: study.final("accuracy", arm=arm) for arm in ("GRPO", "DAPO")
}
HEADINGS = {"length": "tokens", "right_length": "of right ones", "learning_rate": "rate", "survival": "survival"}
TABLE = study.Table({"accuracy": "accuracy", **HEADINGS}, "after {tokens} tokens")


def figure(records: Records, settings: Settings) -> Drawing:
    in_turn = [row for arm in ABLATION.in_turn for row in records.where(arm=arm).rows]
    gains = [
        {"place": place, "taken": step, "seed": seed, "gain": more}
        for step, place in itertools.product((*STEPS, PLACEBO), PLACES)
        if set(pairs(step)[place]) <= set(records.distinct("arm"))
        for seed, more in enumerate(added(records, *pairs(step)[place]))
    ]
    return PANELS(Records([*in_turn, *gains], ("arm", "place", "taken")), settings)


TURNS = Panel([Line("accuracy", by="arm")], "each step in turn", "sampled tokens", "accuracy", width=1.5)
GAINS = [Panel([Bars("gain", by="taken", where={"place": place})], place, "accuracy") for place in PLACES]
FIGURE, PANELS = figure, Panels([TURNS, *GAINS])

if __name__ == "__main__":
    study.main(__name__)
