"""Near copies with opposite signs: do their gradients clash, does masking them help, do anchors revive lost prompts?

Claim     Answers of a group that are near copies but differ in reward have gradients that clash; masking pairs of low
          distinctiveness takes the clash and the gradient's spikes away and raises accuracy; an expert's answers
          (anchors) revive prompts without a right answer.
Paper     DaGRPO, arXiv 2512.06337 (+4.7 points on mathematics, fewer gradient explosions). Only its abstract was seen:
          rewards replace its grader, letters in common its distinctiveness (`dagrpo`); all of it is our reading.
Arms      GRPO; the mask at tau = 0.5 and, mild, 0.25; beside each a random mask that keeps as many answers of each
          reward, the placebo. Anchors where a group has no right answer: an expert's, a right word (masked: with the
          mild mask), or, as placebo, one more of the policy (own). Half of the runs have a grader that errs once in ten
          answers, so that equal answers get opposite signs. Accuracies are exact, at each arm's best learning rate,
          chosen by other seeds. Gradients of GRPO and of masks are those of the same batches, every tenth of GRPO's
          at its best rate. Differences are paired by seed. Words of six letters: `experiments.words.shared_words`.
Command   python -m experiments.distinctiveness
Time      demo three minutes on two CPU cores (four CPU minutes), smoke 20 CPU seconds; paper, not run, an hour.
Expected  Cosine of near copies with opposite signs, under GRPO: 0.20 [0.12, 0.28] with an exact grader, where nothing
          clashes, and -0.49 [-0.61, -0.38] with errors, where near copies do, but other answers do not (0.24 [0.15,
          0.32]). No mask is more accurate than GRPO. Accuracy on hopeless prompts: 0.72 with an expert's anchors, 0.17
          with GRPO. The policy's own anchors revive none, and a mask beside the expert's costs accuracy.
Doubt     A language model as grader; masks that lift the cosine with the exact gradient above their placebos'.
Smoke     python -m experiments.distinctiveness --preset=smoke
"""

import dataclasses
from collections.abc import Callable
from functools import cache, partial

from experiments.distinctiveness.random_pairs import RandomPairs
from experiments.distinctiveness.word_gradients import ACCURACIES, with_gradients, word_runs
from experiments.words.shared_words import DecidedWords, RightWord, SharedTable
from experiments.words.stale_groups import Grid
from ipsrl import objectives, study
from ipsrl.checking.fields import any_of, between, positive
from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panel, Panels
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.study.tuning import of_best

WORDS = DecidedWords()
POLICY = SharedTable.of(WORDS, width=64)
DAGRPO = objectives.make("dagrpo")
EXPERT = OffPolicyAnswers(1, at_most=0.0, refine=RightWord())
OWN = OffPolicyAnswers(1, at_most=0.0)
ARMS = {
    "grpo": (objectives.make("grpo"), None),
    "mask": (objectives.make("dagrpo(tau=0.5)"), None),
    "random_mask": (dataclasses.replace(DAGRPO, advantages=RandomPairs(0.5)), None),
    "mild_mask": (objectives.make("dagrpo(tau=0.25)"), None),
    "mild_random_mask": (dataclasses.replace(DAGRPO, advantages=RandomPairs(0.25)), None),
    "anchors": (objectives.make("dagrpo(tau=0, anchors=True)"), EXPERT),
    "own_anchors": (objectives.make("dagrpo(tau=0, anchors=True)"), OWN),
    "masked_anchors": (objectives.make("dagrpo(tau=0.25, anchors=True)"), EXPERT),
}
PLACEBOS = {"mask": "random_mask", "mild_mask": "mild_random_mask"}
WEIGHED = ("grpo", *PLACEBOS, *PLACEBOS.values())
GRADERS = {"an exact grader": 0.0, "a grader that errs once in ten answers": 0.1}


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`errors` are the grader's rates, for right and wrong answers; an interval is ten batches of 16 groups."""

    arms: tuple[str, ...] = any_of(ARMS)
    errors: tuple[float, ...] = between(0, 0.5, (0.0, 0.1))
    learning_rates: tuple[float, ...] = positive((0.01, 0.03, 0.1))
    seeds: tuple[int, ...] = study.seeds(range(8), least=2)
    group_size: int = between(2, 256, 16)
    intervals: int = positive(20)


PRESETS = {
    "smoke": Settings(("grpo", "mild_mask"), (0.1,), (0.03,), (0, 1), intervals=2),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32)), intervals=100),
}


def curves(settings: Settings) -> study.Curves:
    grid = Grid(settings.seeds, (0,), settings.learning_rates)
    run = partial(word_runs, WORDS, POLICY, grid, settings.group_size, settings.intervals)
    weighed = {name: ARMS[name][0] for name in WEIGHED}
    for errors in settings.errors:
        # Run once: all masks weigh the batches of GRPO's runs.
        of_grpo = cache(partial(run, errors, *ARMS["grpo"], weighed))
        for arm in settings.arms:
            own = of_grpo if arm == "grpo" else partial(run, errors, *ARMS[arm])
            compute = partial(with_gradients, own, of_grpo, arm, grid)
            yield study.Curve({"arm": arm, "errors": errors}, compute, ("age", "learning_rate"))


def end(value: str, arm: str, errors: float) -> study.Number:
    """A final value: an accuracy at the arm's best learning rate, others at GRPO's, whose batches are measured."""
    judged_at = {} if value in ACCURACIES else {"arm": "grpo"}
    number = study.final(value, arm=arm, errors=errors)
    return study.Best(number, "accuracy", judged_at=judged_at)


def higher(value: str, one: str, other: str, errors: float = 0.0, by: float = 0.02) -> study.Claim:
    """Whether a value of one arm ends above another's by more than a margin, in runs of the same seeds."""
    return study.above(end(value, one, errors), end(value, other, errors), by)


def a_mask(claim: Callable[[str, str], study.Claim]) -> study.Claim:
    """Whether a claim holds of one of the masks, given its name and its placebo's."""
    return study.some(claim(*pair) for pair in PLACEBOS.items())


def calmer(errors: float, mask: str, placebo: str) -> study.Claim:
    """Whether both measures of a mask's norms are below nine tenths of its placebo's."""
    return study.every(
        study.below(end(norm, mask, errors), 0.9 * end(norm, placebo, errors))
        for norm in ("norm_std", "norm_max")
    )


def claims_with(grader: str, errors: float) -> dict[str, study.Claim]:
    near, far = end("near", "grpo", errors), end("far", "grpo", errors)
    more = partial(higher, errors=errors)
    one = f"With {grader}, one of the two masks"
    return {
        f"With {grader}, near copies of opposite sign clash: the mean cosine of their gradients, under GRPO, is below "
        "-0.05": study.below(near, -0.05),
        f"With {grader}, the mean cosine of opposite signs is more than 0.05 lower in near copies than in other "
        "answers, under GRPO": study.above(far, near, 0.05),
        f"{one} raises the cosine between both signs of a group, on GRPO's batches, by more than 0.05 beyond its "
        "random mask": a_mask(partial(more, "clash", by=0.05)),
        f"{one} takes spikes away, on GRPO's batches: the largest norm of a gradient and the norm's deviation are "
        "below 0.9 of its random mask's": a_mask(partial(calmer, errors)),
        f"{one} ends more than 0.02 above GRPO's accuracy": a_mask(
            lambda mask, _: more("accuracy", mask, "grpo")
        ),
        f"{one} ends more than 0.02 above its random mask's accuracy": a_mask(
            partial(more, "accuracy")
        ),
    }


HOPELESS = "With an exact grader, anchors of an expert raise the accuracy on hopeless prompts by more than 0.02 beyond"
CLAIMS = {
    sentence: claim
    for grader, errors in GRADERS.items()
    for sentence, claim in claims_with(grader, errors).items()
} | {
    f"{HOPELESS} GRPO's": higher("hopeless", "anchors", "grpo"),
    f"{HOPELESS} that with anchors of the policy": higher("hopeless", "anchors", "own_anchors"),
    "With an exact grader, anchors of an expert with the mild mask end more than 0.02 above the accuracy of anchors of "
    "an expert alone": higher("accuracy", "masked_anchors", "anchors"),
}
HEADLINE = study.Headline(
    subject="Groups, prompts and budgets",
    claim=(
        "Near copies with opposite rewards have clashing gradients; masking them raises accuracy."
    ),
    scope="words from shared parameters, an exact grader",
    decided_by=(
        (
            "With an exact grader, near copies of opposite sign clash: the mean cosine of"
            " their gradients, under GRPO, is below -0.05"
        ),
        "With an exact grader, one of the two masks ends more than 0.02 above GRPO's accuracy",
        (
            "With an exact grader, one of the two masks ends more than 0.02 above its "
            "random mask's accuracy"
        ),
    ),
)
ROWS = ("errors", "arm")
FIXED = {"learning_rate": 0.03}
TABLE = study.one_below_the_other(
    of_best(study.Table(ACCURACIES, "at each arm's best learning rate", rows=ROWS), "accuracy"),
    study.Table(title="at a learning rate of 0.03", where=FIXED, rows=ROWS),
)
PANELS = {
    "accuracy": "accuracy",
    "hopeless": "accuracy on hopeless prompts",
    "clash": "cosine, on GRPO's batches",
}
FIGURE = Panels(
    [
        Panel([Bars(value, by="arm", where=FIXED)], "errors of the grader: {errors}", text)
        for value, text in PANELS.items()
    ],
    each="errors",
)
