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
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from ipsrl import objectives, study
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.study.claims import above, all_of, any_of, exceeds, tuned
from ipsrl.study.placebos import RandomPairs
from ipsrl.study.worlds.shared_words import DecidedWords, RightWord, SharedTable
from ipsrl.study.worlds.word_gradients import ACCURACIES, word_runs

WORDS = DecidedWords()
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
        compute = partial(word_runs, WORDS, POLICY, *ARMS[arm], errors, settings)
        yield study.Curve({"arm": arm, "errors": errors}, compute, ("age", "learning_rate"))


def end(value: str, arm: str, errors: float) -> Callable[[Records], Interval]:
    """For NUMBERS: accuracies with the arm's best learning rate, measures of gradients with GRPO's."""
    judged = {"arm": arm if value in ACCURACIES else "grpo", "errors": errors}
    return lambda records: records.final(value, **tuned(records, "accuracy", **judged) | {"arm": arm})


def higher(value: str, one: str, other: str, errors: float = 0.0) -> Callable[[Records], bool | None]:
    return exceeds(end(value, one, errors), end(value, other, errors))


def a_mask_is_higher(value: str, errors: float, than: str = "") -> Callable[[Records], bool | None]:
    """For CLAIMS: one of the masks is above another arm, or above its own placebo."""
    parts = [higher(value, mask, than or placebo, errors) for mask, placebo in MASKS.items()]
    return lambda records: any_of(part(records) for part in parts)


def a_mask_is_calmer(errors: float) -> Callable[[Records], bool | None]:
    """For CLAIMS: by each measure of the gradient's norms, one of the masks is below its placebo."""
    parts = [[higher(norm, placebo, mask, errors) for norm in NORMS] for mask, placebo in MASKS.items()]
    return lambda records: any_of(all_of(part(records) for part in of_mask) for of_mask in parts)


NORMS = ("norm_std", "norm_max")
MASKS = {"mask": "random", "few_mask": "few_random"}
CLAIMS = {}
for grader, errors in (("exact grader", 0.0), ("grader with errors", 0.1)):
    CLAIMS |= {
        f"{grader}: near copies of opposite sign clash more than other answers": above(end("gap", "grpo", errors), 0.0),
        f"{grader}: a mask lessens the clash more than its placebo": a_mask_is_higher("clash", errors),
        f"{grader}: a mask calms gradients more than its placebo": a_mask_is_calmer(errors),
        f"{grader}: a mask ends at a higher accuracy than GRPO": a_mask_is_higher("accuracy", errors, "grpo"),
        f"{grader}: a mask ends at a higher accuracy than its placebo": a_mask_is_higher("accuracy", errors),
    }
HOPELESS = "exact grader: anchors raise accuracy on hopeless prompts above "
CLAIMS |= {
    HOPELESS + "GRPO's": higher("hopeless", "anchors", "grpo"),
    HOPELESS + "that with their placebo": higher("hopeless", "anchors", "own_anchors"),
    "exact grader: mask and anchors end above anchors": higher("accuracy", "both", "anchors"),
}
REPORTED = {
    **{"accuracy": ARMS, "hopeless": ("grpo", "anchors", "own_anchors"), "near": ("grpo",), "far": ("grpo",)},
    **dict.fromkeys(("clash", "alignment", "norm_max"), ("grpo", *MASKS, *MASKS.values())),
}
NUMBERS = {
    f"{arm}, {value}, errors {errors:g}": end(value, arm, errors)
    for errors, value in product((0.0, 0.1), REPORTED)
    for arm in REPORTED[value]
}
WHERE, GRADER = {"learning_rate": 0.03}, "errors of the grader: {errors}"
TABLE = study.Table(where=WHERE, rows=("errors", "arm"))
PANELS = {"accuracy": "accuracy", "hopeless": "accuracy on hopeless prompts", "clash": "cosine of opposite signs"}
DRAWN = [Panel([Bars(value, by="arm", where=WHERE)], GRADER, text) for value, text in PANELS.items()]
FIGURE = Panels(DRAWN, each="errors")

if __name__ == "__main__":
    study.main(__name__)
