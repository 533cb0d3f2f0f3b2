"""Entropy collapse in training, variance inflation at test time: are they two failures, each with its own fixes?

Claim     They are dual failures: training loses entropy; longer thinking at test time inflates the variance of answers,
          so that accuracy first rises, then falls; a fix for one does nothing for the other.
Paper     A synthesis note on arXiv 2505.22617 (R = -a exp(H) + b) and 2506.04210 (thinking longer; its Gaussian picture
          is our reading). That a fix does nothing for the other failure is our sharp form. The rules were written after
          a trial of the toys with 8 of the seeds, "in the transformer" after a demo whose forced work was longer than
          any it had learned, with 0.01 right: that work was replaced.
Arms      Fixes of training: an entropy bonus, Clip-Cov, IPS-GRPO; placebo: GRPO with a quarter of the step. Fixes at
          test time, at the budget of the longest thought: a majority vote of short thoughts, a temperature of 1/4;
          placebo: one short thought. Each is measured on both failures. Toys, exact but for votes: 16 prompts with four
          right arms of 16, free logits; 16 with five right places of 41, a Gaussian whose mean is 0 to 11 places off; n
          times as long a thought has n times the variance. A small transformer spells sums in eight ways; 3, 11 or 27
          digits of forced work make answers of about one, two and four times eight tokens.
Command   python -m experiments.train_and_test_time
Time      demo five minutes of CPU time, seven of two busy cores; smoke one.
Expected  effective right outcomes after GRPO, IPS-GRPO, and accuracy lost by long thoughts: free logits 1.03, 2.78
          and 0.711, 0.684; Gaussian 1.71, 4.42 and 0.10, 0.46; transformer 1.5, 5.3 and 0.14, 0.21. The transformer
          rises from 0.852 [0.834, 0.871] to 0.906, then falls to 0.769 [0.733, 0.798]; the toys only fall: the Gaussian
          rises on prompts further off than about its std, before training.
Doubt     If IPS-GRPO lost no more than GRPO at equal accuracy before; or if the transformer's fall were not variance,
          but work as long as the longest it has learned.
Smoke     python -m experiments.train_and_test_time --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ipsrl import study
from ipsrl.environments.long_work import LongWork
from ipsrl.fields import one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.claims import all_of, close, rises_then_falls
from ipsrl.study.text_tasks import SMALL, SMOKE
from ipsrl.study.worlds.test_time import START, TEST, TOYS, TRAINING, exact_curves, text_curves, toys

GRPO, SLOW = "grpo", "grpo, quarter of the step"
TEXT_TOY, LINE = "transformer", 0.95
*_, IPS = FIXES = ("grpo(entropy=0.1)", "clip_cov", "ips_grpo")
BUDGETS, TEXT_BUDGETS, WORK = (1, 2, 4, 8, 16), (1, 2, 4), (3, 11, 27)
TASK = "long_work(digits=2, problems=32, longest_work=27)"
DEMO = dataclasses.replace(SMALL, objectives=(GRPO, "grpo(entropy=0.01)", IPS), steps=60, evaluate_every=60)
LITTLE = dataclasses.replace(SMOKE, objectives=(GRPO,), seeds=(0,))
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
    return interval_of(values[:, 0] / 2).exceeds(interval_of(values[:, -1]))


def is_a_line(toy: Records) -> bool | None:
    x, y = (toy.curve(name, part=TRAINING, objective=GRPO)[1] for name in ("exp_entropy", "accuracy"))
    shares = [np.corrcoef(*each)[0, 1] ** 2 for each in zip(x, y, strict=True)]
    return interval_of(np.array(shares)).exceeds(LINE)


def peaks(toy: Records) -> bool | None:
    return rises_then_falls([interval_of(each) for each in toy.curve("long", part=TEST, objective=GRPO)[1].T])


def everywhere(claim: Callable[[Records], bool | None], but: str = "") -> Callable[[Records], bool | None]:
    return lambda records: all_of(claim(toy) for labels, toy in records.each("toy") if labels["toy"] != but)


def at_end(toy: Records, name: str, arm: str = GRPO) -> Interval:
    return toy.final(name, part=TEST, objective=arm)


def each_fix(compare: Callable[..., bool | None], name: str) -> Callable[[Records], bool | None]:
    """Whether a value with each fix compares so to that of GRPO, everywhere."""

    def of_toy(toy: Records) -> bool | None:
        fixes = [arm for arm in toy.distinct("objective") if arm not in (GRPO, SLOW, START)]
        return all_of(compare(at_end(toy, name, arm), at_end(toy, name)) for arm in fixes)

    return everywhere(of_toy)


def two_ways(compare: Callable[..., bool | None], one: str, other: str) -> Callable[[Records], bool | None]:
    """Whether two values of GRPO compare so, everywhere."""
    return everywhere(lambda toy: compare(at_end(toy, one), at_end(toy, other)))


MORE, LOSS, NUMBER = Interval.exceeds, functools.partial(close, by=0.02), functools.partial(close, by=0.1)
CLAIMS = {
    "GRPO collapses: exp of the entropy ends below half of its start, everywhere": everywhere(collapses),
    "reward is a line in exp of the entropy under GRPO (R^2 above 0.95), in both toys": everywhere(is_a_line, TEXT_TOY),
    "thinking longer raises, then lowers accuracy, everywhere": everywhere(peaks),
    "so it does in the transformer": lambda records: everywhere(peaks)(records.where(toy=TEXT_TOY)),
    "each fix of training keeps more effective right outcomes, everywhere": each_fix(MORE, "effective_one"),
    "a vote is right more often than one thought of the same budget, everywhere": two_ways(MORE, "vote", "long"),
    "it is the vote: it is right more often than one short thought, everywhere": two_ways(MORE, "vote", "one"),
    "no fix of training changes what long thinking loses by 0.02, anywhere": each_fix(LOSS, "lost_long"),
    "a vote changes effective right outcomes by less than 0.1": two_ways(NUMBER, "effective_vote", "effective_one"),
}
NAMES = {"effective_one": "effective right outcomes", "lost_long": "lost by long thoughts", "lost_vote": "by votes"}
NUMBERS = {
    f"{toy}, {arm}: {shown}": study.final(name, part=TEST, toy=toy, objective=arm)
    for toy in (*TOYS, TEXT_TOY)
    for arm in (GRPO, IPS)
    for name, shown in NAMES.items()
}
COLUMNS = [f"{value}_{way}" for value in ("effective", "lost") for way in ("one", "long", "vote", "cool")]
TABLE = study.Table(COLUMNS, "{toy}, at the largest budget", {"part": TEST}, rows=("objective",), each="toy")
BUDGET = {"xlabel": "budget", "ylabel": "accuracy", "xscale": "log2", "ylim": (0, 1.02)}
WAYS = {"long": "one long thought", "vote": "a vote of short thoughts"}
EFFECTIVE = Line("effective", where={"part": TRAINING}, markers=False)
TESTS = [Panel([Line(way, where={"part": TEST})], title, **BUDGET) for way, title in WAYS.items()]
FIGURE = Panels([Panel([EFFECTIVE], "{toy}", "updates", "effective right outcomes"), *TESTS], each="toy")

if __name__ == "__main__":
    study.main(__name__)
