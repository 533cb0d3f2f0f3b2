"""Entropy collapse in training, variance inflation at test time: are they two failures, each with its own fixes?

Claim     They are dual failures: training loses entropy; longer thinking at test time inflates the variance of answers,
          so that accuracy first rises, then falls; a fix for one does nothing for the other.
Paper     A synthesis note on arXiv 2505.22617 (R = -a exp(H) + b) and 2506.04210 (long thoughts, the Gaussian is our
          reading); fixes that do nothing for the other failure: our sharp form. Rules and work changed after demos.
Arms      Fixes of training: an entropy bonus, Clip-Cov, IPS-GRPO; control in toys: GRPO with a quarter of the step.
          Fixes at test time, at the budget of the longest thought: a majority vote of short thoughts, in toys also a
          temperature of 1/4; control: one short thought. Differences are paired by seed. Toys, exact but for votes: 16
          prompts with four right arms of 16, free logits; 16 with five right places of 41, a Gaussian whose mean is 0
          to 11 places off; n times as long a thought has n times the variance. A small transformer spells sums in eight
          ways; 3, 11 or 27 digits of forced work make answers of about one, two and four times eight tokens.
Command   python -m experiments.train_and_test_time
Time      demo five minutes of CPU time, seven of two busy cores; smoke one.
Expected  right outcomes after GRPO, IPS-GRPO, and accuracy that long thoughts lose: free logits 1.03, 2.78 and 0.71,
          0.68; Gaussian 1.71, 4.42 and 0.10, 0.46; transformer 1.5, 5.3 and 0.14, 0.21. A quarter of the step: 1.11,
          2.31. Longer: transformer 0.85, 0.91, 0.77.
Doubt     If IPS-GRPO lost no more than GRPO at equal accuracy before; if work as long as any learned made the fall.
Smoke     python -m experiments.train_and_test_time --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from experiments.train_and_test_time.budgets import (
    START,
    TEST,
    TOYS,
    TRAINING,
    exact_curves,
    peaks,
    text_curves,
    toys,
)
from ipsrl import study
from ipsrl.environments.long_work import LongWork
from ipsrl.fields import one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.claims import all_of, close
from ipsrl.study.text_tasks import SMALL, SMOKE

GRPO, SLOW = "grpo", "grpo, quarter of the step"
FREE, GAUSSIAN, TEXT_TOY = *TOYS, "transformer"
*_, IPS = FIXES = ("grpo(entropy=0.1)", "clip_cov", "ips_grpo")
BUDGETS, TEXT_BUDGETS, WORK = (1, 2, 4, 8, 16), (1, 2, 4), (3, 11, 27)
TASK = "long_work(digits=2, problems=32, longest_work=27)"
DEMO = dataclasses.replace(
    SMALL, objectives=(GRPO, "grpo(entropy=0.01)", IPS), steps=60, evaluate_every=60
)
LITTLE = dataclasses.replace(SMOKE, objectives=(GRPO,), seeds=(0,))
Decide = Callable[[Interval], bool | None]
TEXTS = {"smoke": LITTLE, "demo": DEMO, "paper": dataclasses.replace(DEMO, steps=600)}


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`text` is the size of the task in words."""

    objectives: tuple[str, ...] = study.objectives((GRPO, *FIXES))
    seeds: tuple[int, ...] = study.seeds(tuple(range(32)), least=2)
    learning_rate: float = positive(0.5)
    steps: int = positive(4000)
    record_every: int = positive(200)
    text: str = one_of(*TEXTS, default="demo")


PRESETS = {
    "smoke": Settings(objectives=(GRPO,), seeds=(0, 1), steps=100, record_every=50, text="smoke"),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), steps=40_000, text="paper"),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    arms = {text: (text, 1.0) for text in settings.objectives} | {SLOW: (GRPO, 1 / 4)}
    for (toy, world), (arm, (text, times)) in itertools.product(toys().items(), arms.items()):
        labels, rate = {"toy": toy, "objective": arm}, times * settings.learning_rate
        yield from exact_curves(*world, text, settings, BUDGETS, labels, rate, start=arm == GRPO)
    forced = [LongWork(2, problems=32, longest_work=max(WORK), work=work) for work in WORK]
    yield from text_curves({"toy": TEXT_TOY}, TASK, forced, TEXTS[settings.text], TEXT_BUDGETS)


def collapses(toy: Records) -> bool | None:
    _, values = toy.curve("exp_entropy", part=TRAINING, objective=GRPO)
    return interval_of(values[:, 0] / 2 - values[:, -1]).exceeds(0.0)


def is_a_line(toy: Records) -> bool | None:
    x, y = (
        toy.curve(name, part=TRAINING, objective=GRPO)[1] for name in ("exp_entropy", "accuracy")
    )
    return interval_of(
        np.array([np.corrcoef(*of)[0, 1] ** 2 for of in zip(x, y, strict=True)])
    ).exceeds(0.95)


def peak(toy: str, name: str, arm: str) -> study.Claim:
    return lambda records: peaks(records.curve(name, part=TEST, toy=toy, objective=arm)[1], by=0.02)


def everywhere(claim: Callable[[Records], bool | None], but: str = "") -> study.Claim:
    return lambda records: all_of(
        claim(toy) for labels, toy in records.each("toy") if labels["toy"] != but
    )


def difference(toy: Records, *pair: tuple[str, str]) -> Interval:
    """Of two values, each of an arm, at the largest budget: a mean over seeds of differences."""
    return interval_of(
        np.subtract(*(toy.ends(name, part=TEST, objective=arm) for name, arm in pair))
    )


def each_fix(decide: Decide, name: str, than: str = GRPO, but: str = "") -> study.Claim:
    """How a value with each fix of training compares with that of an arm without."""
    others, of = (
        (GRPO, SLOW, START),
        lambda toy, arm: decide(difference(toy, (name, arm), (name, than))),
    )
    return everywhere(
        lambda toy: all_of(of(toy, arm) for arm in toy.distinct("objective") if arm not in others),
        but,
    )


def of_grpo(decide: Decide, one: str, other: str, but: str = "") -> study.Claim:
    return everywhere(lambda toy: decide(difference(toy, (one, GRPO), (other, GRPO))), but)


ABOVE, MANY = (functools.partial(Interval.exceeds, other=by) for by in (0.02, 0.1))
SAME_LOSS, NUMBER = (functools.partial(close, other=0.0, by=by) for by in (0.02, 0.1))
ALL, TWO, OFTEN = (
    "in both toys and the transformer",
    "in both toys",
    "right more often, by over 0.02, than",
)
KEPT, PEAK = (
    "effective_one",
    "thinking longer raises accuracy by over 0.02, then lowers it by over 0.02",
)
FIX, COOL = (
    "each fix of training keeps over 0.1 effective right outcomes more than GRPO",
    "a temperature of 1/4",
)
WRONG, LOST = "long_where_wrong", study.above(study.final("lost_long"), 0.02)
CLAIMS = {
    f"GRPO collapses {ALL}: exp of the entropy ends below half of its start": everywhere(collapses),
    f"under GRPO accuracy is a line in exp of the entropy (R^2 above 0.95), {TWO}": everywhere(
        is_a_line, TEXT_TOY
    ),
    f"{FREE}, before training, where the likeliest answer is wrong: {PEAK}": peak(
        FREE, WRONG, START
    ),
    f"{GAUSSIAN}, before training, where the likeliest answer is wrong: {PEAK}": peak(
        GAUSSIAN, WRONG, START
    ),
    f"{TEXT_TOY}, after GRPO: {PEAK}": peak(TEXT_TOY, "long", GRPO),
    f"after GRPO the best thought is {OFTEN} the longest, {ALL}": study.at_each(
        "toy", LOST, part=TEST, objective=GRPO
    ),
    f"{FIX}, {ALL}": each_fix(MANY, KEPT),
    f"{FIX} with a quarter of the step, {TWO}": each_fix(MANY, KEPT, SLOW, TEXT_TOY),
    f"no fix of training changes what the longest thought loses by 0.02, {ALL}": each_fix(
        SAME_LOSS, "lost_long"
    ),
    f"after GRPO a vote is {OFTEN} one thought of its budget, {ALL}": of_grpo(
        ABOVE, "vote", "long"
    ),
    f"after GRPO a vote is {OFTEN} one short thought, {ALL}": of_grpo(ABOVE, "vote", "one"),
    f"after GRPO the longest thought with {COOL} is {OFTEN} without, {TWO}": of_grpo(
        ABOVE, "cool", "long", TEXT_TOY
    ),
    f"after GRPO a vote changes effective right outcomes by under 0.1, {ALL}": of_grpo(
        NUMBER, "effective_vote", KEPT
    ),
}
NAMES = {KEPT: "effective right outcomes", "lost_long": "accuracy lost by long thoughts"}
NAMES |= {
    "lost_vote": "accuracy lost by votes",
    "lost_cool": f"accuracy lost by long thoughts at {COOL}",
}
NUMBERS = {
    f"{toy}, {arm_shown}: {shown}": study.final(name, part=TEST, toy=toy, objective=arm)
    for toy in (FREE, GAUSSIAN, TEXT_TOY)
    for arm, arm_shown in {GRPO: "GRPO", SLOW: "GRPO, quarter of the step", IPS: "IPS-GRPO"}.items()
    for name, shown in NAMES.items()
}
COLUMNS = [
    f"{value}_{way}" for value in ("effective", "lost") for way in ("one", "long", "vote", "cool")
]
TABLE = study.Table(
    COLUMNS, "{toy}, at the largest budget", {"part": TEST}, rows=("objective",), each="toy"
)
BUDGET = {"xlabel": "budget", "ylabel": "accuracy", "xscale": "log2", "ylim": (0, 1.02)}
EFFECTIVE = Line("effective", where={"part": TRAINING}, markers=False)
WAYS = ("long", "one long thought"), ("vote", "a vote of short thoughts")
TESTS = [Panel([Line(way, where={"part": TEST})], title, **BUDGET) for way, title in WAYS]
FIGURE = Panels(
    [Panel([EFFECTIVE], "{toy}", "updates", "effective right outcomes"), *TESTS], each="toy"
)
