"""Near copies with opposite signs: do their gradients clash, does masking them help, do anchors revive lost prompts?

Claim     Answers of a group that are near copies but differ in reward have gradients that clash; masking pairs of low
          distinctiveness takes the clash and the gradient's spikes away and raises accuracy; an expert's answers
          (anchors) revive prompts without a right answer.
Paper     DaGRPO, arXiv 2512.06337 (+4.7 points on mathematics, fewer gradient explosions). Only its abstract was seen:
          rewards replace its grader, letters in common its distinctiveness (`dagrpo`); all of it is our reading.
Arms      GRPO; the mask at tau = 0.5 and, `few`, 0.25; beside each a random mask that keeps as many answers of each
          reward, the placebo. Anchors where a group has no right answer: a right word or, as placebo, one more answer
          of the policy (`own`). Both: anchors and the mask at 0.25. Half of the runs have a grader that errs once in
          ten answers, so that equal answers get opposite signs. Accuracies are exact, with each arm's best learning
          rate; gradients with GRPO's. Words of six letters: `ipsrl.study.worlds.shared_words`.
Command   python -m experiments.distinctiveness
Time      demo two to three minutes on two CPU cores (under four CPU minutes), smoke 20 CPU seconds; paper, not run, an
          hour.
Expected  +- 0.07, eight seeds. Cosine of opposite signs, near copies and others: 0.20 and 0.24 with an exact grader,
          -0.61 and 0.32 with errors. Of both sides of a group, with errors: grpo -0.24, masks 0.21, placebos 0.08. Yet
          masks are not more accurate, 0.58 at best beside 0.59 of grpo, with errors 0.53 beside 0.56 (undecided):
          their batches keep less of the exact gradient's direction, cosine 0.09 beside 0.16, at larger norms. Anchors:
          hopeless prompts 0.72 +- 0.1, grpo 0.17, own_anchors 0.14; with the mask 0.75 accuracy, without 0.86.
Doubt     A grader of a language model, whose errors are alike in near copies; a mask that raises the cosine with the
          exact gradient above that of its placebo.
Smoke     python -m experiments.distinctiveness --preset=smoke
"""

import dataclasses
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from ipsrl import objectives, study
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.rewards import NoisyVerifier
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.study.claims import all_of, any_of, tuned
from ipsrl.study.placebos import RandomPairs
from ipsrl.study.worlds.shared_words import DecidedWords, RightWord, SharedTable
from ipsrl.study.worlds.stale_groups import mean_so_far, points, std_so_far, train_on_old_groups
from ipsrl.study.worlds.word_gradients import gradient_measures
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

WORDS, BATCHES = DecidedWords(), 10
POLICY = SharedTable(WORDS.num_observations, WORDS.vocabulary_size, width=64)
DAGRPO, EXPERT = objectives.make("dagrpo"), OffPolicyAnswers(1, at_most=0.0, refine=RightWord())
ARMS = {
    "grpo": (objectives.make("grpo"), None),
    "mask": (objectives.make("dagrpo(tau=0.5)"), None),
    "random": (dataclasses.replace(DAGRPO, advantages=RandomPairs(0.5)), None),
    "few_mask": (objectives.make("dagrpo(tau=0.25)"), None),
    "few_random": (dataclasses.replace(DAGRPO, advantages=RandomPairs(0.25)), None),
    "anchors": (objectives.make("dagrpo(tau=0, anchors=True)"), EXPERT),
    "own_anchors": (objectives.make("dagrpo(tau=0, anchors=True)"), OffPolicyAnswers(1, at_most=0.0)),
    "both": (objectives.make("dagrpo(tau=0.25, anchors=True)"), EXPERT),
}


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`errors` are the grader's rates, for right and wrong answers; an interval is ten batches of 16 groups."""

    arms: tuple[str, ...] = one_of(*ARMS, default=tuple(ARMS))
    errors: tuple[float, ...] = between(0, 0.5, (0.0, 0.1))
    learning_rates: tuple[float, ...] = positive((0.01, 0.03, 0.1))
    seeds: tuple[int, ...] = study.seeds(tuple(range(8)), least=2)
    group_size: int = between(2, 256, 16)
    intervals: int = positive(20)


PRESETS = {
    "smoke": Settings(("grpo", "few_mask"), (0.1,), (0.03,), (0, 1), intervals=2),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32)), intervals=100),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for errors, arm in product(settings.errors, settings.arms):
        compute = partial(runs, arm, errors, settings)
        yield study.Curve({"arm": arm, "errors": errors}, compute, ("age", "learning_rate"))


def runs(arm: str, errors: float, settings: Settings) -> study.Points:
    """Accuracies are those of the end, everything else means over the run, or its std and maximum."""
    objective, anchors = ARMS[arm]
    steps, sizes = BATCHES * settings.intervals, (WORDS.num_prompts, settings.group_size)
    training = TrainSettings(steps, *sizes, max_gradient_norm=None, off_policy=anchors)
    trainer, grid = Trainer(WORDS, POLICY, objective, training), (settings.seeds, (0,), settings.learning_rates)

    def measure(parameters, of_sampler, groups):
        now = (WORDS.distribution(POLICY, parameters) * WORDS.reward_table()).sum(axis=-1)
        accuracies = {"accuracy": now.mean(), "hopeless": now[WORDS.hopeless].mean()}
        return accuracies | gradient_measures(WORDS, POLICY, objective, of_sampler, groups)

    measured, metrics = train_on_old_groups(trainer, measure, BATCHES, *grid, NoisyVerifier(errors, errors))
    values = {name: of if name in ACCURACIES else mean_so_far(of) for name, of in measured.items()}
    norms = metrics["gradient_norm"]
    values |= {"norm_std": std_so_far(norms), "norm_max": np.maximum.accumulate(norms.max(-1), -1)}
    return points(values, BATCHES, *grid)


def end(records, value: str, arm: str, errors: float):
    """Accuracies with the arm's best learning rate, measures of gradients with GRPO's."""
    rate_of = arm if value in ACCURACIES else "grpo"
    best = tuned(records, "accuracy", arm=rate_of, errors=errors)
    return records.final(value, **best | {"arm": arm})


def higher(value: str, one: str, other: str, errors: float, records) -> bool | None:
    return end(records, value, one, errors).exceeds(end(records, value, other, errors))


def either(values: tuple[str, ...], other: str, errors: float, records, lower: bool = False) -> bool | None:
    """Whether one of the masks is above (or below) another arm, or its placebo, by all values."""
    pairs = [(mask, other or placebo)[:: -1 if lower else 1] for mask, placebo in MASKS.items()]
    return any_of(all_of(higher(value, *pair, errors, records) for value in values) for pair in pairs)


ACCURACIES, NORMS = ("accuracy", "hopeless"), ("norm_std", "norm_max")
MASKS = {"mask": "random", "few_mask": "few_random"}
CLAIMS = {}
for grader, errors in (("exact grader", 0.0), ("grader with errors", 0.1)):
    CLAIMS |= {
        f"{grader}: near copies of opposite sign clash more than other answers": lambda records, errors=errors: end(
            records, "gap", "grpo", errors
        ).exceeds(0.0),
        f"{grader}: a mask lessens the clash more than its placebo": partial(either, ("clash",), "", errors),
        f"{grader}: a mask calms gradients more than its placebo": partial(either, NORMS, "", errors, lower=True),
        f"{grader}: a mask ends at a higher accuracy than GRPO": partial(either, ("accuracy",), "grpo", errors),
        f"{grader}: a mask ends at a higher accuracy than its placebo": partial(either, ("accuracy",), "", errors),
    }
HOPELESS = "exact grader: anchors raise accuracy on hopeless prompts above "
CLAIMS |= {
    HOPELESS + "GRPO's": partial(higher, "hopeless", "anchors", "grpo", 0.0),
    HOPELESS + "that with their placebo": partial(higher, "hopeless", "anchors", "own_anchors", 0.0),
    "exact grader: mask and anchors end above anchors": partial(higher, "accuracy", "both", "anchors", 0.0),
}
REPORTED = {
    **{"accuracy": ARMS, "hopeless": ("grpo", "anchors", "own_anchors"), "near": ("grpo",), "far": ("grpo",)},
    **dict.fromkeys(("clash", "alignment", "norm_max"), ("grpo", *MASKS, *MASKS.values())),
}
NUMBERS = {
    f"{arm}, {value}, errors {errors:g}": partial(end, value=value, arm=arm, errors=errors)
    for errors, value in product((0.0, 0.1), REPORTED)
    for arm in REPORTED[value]
}
WHERE, GRADER = {"learning_rate": 0.03}, "errors of the grader: {errors}"
TABLE = study.Table(where=WHERE, rows=("errors", "arm"))
PANELS = {"accuracy": "accuracy", "hopeless": "hopeless prompts", "clash": "cosine", "norm_std": "std of norms"}
DRAWN = [Panel([Line(name, by="arm", where=WHERE)], GRADER, "batches", text) for name, text in PANELS.items()]
FIGURE = Panels(DRAWN, each="errors")

if __name__ == "__main__":
    study.main(__name__)
