"""Old groups: which limit on the importance ratio keeps a run stable, and does it need one?

Claim     DPPO, BAPO, CISPO, GPPO, GSPO and clip-higher stay stable when the groups are several updates old; the plain
          ratio and GRPO's symmetric clip do not.
Paper     DPPO 2602.04879 (more stable than clip-higher and CISPO), BAPO 2510.18927 (above a fixed clip at staleness 2
          and 4), CISPO 2506.13585, GPPO 2508.07629, GSPO 2507.18071, clip-higher 2503.14476. Stable is our reading.
Arms      Surrogates: no ratio, the plain one, GRPO's clip, the six, truncated and masked weights (TIS, MIS, at 2), a
          clip of the whole answer's ratio, GPPO without its gradient below 1 - low. All have GRPO's advantages, a mean
          over tokens, and as many sampled words. Placebo for a limit: a smaller step of the plain ratio. The best step
          of a seed has the highest mean reward in training on other seeds; differences are paired by seed. Age, 0 to
          8, is the number of batches between the policy that sampled and the one that learns. Rewards are exact; states
          share parameters, because in tables hardly any step is too long (`experiments.words.shared_words`).
Command   python -m experiments.staleness
Time      demo three to four minutes on two CPU cores (six CPU minutes), smoke 15 CPU seconds; paper, not run, an hour.
Expected  Last reward at the highest age with the step that is best at age zero, eight mini-batches, +- 0.1: plain 0.82,
          GPPO 0.49, GSPO 0.93. Plain, GRPO's clip, clip-higher, DPPO and GSPO are stable; CISPO and BAPO undecided.
          GPPO is not: it lowers letters however unlikely; without that (gppo_upper, added later) it ends at 0.87.
Doubt     Hidden layers, or longer answers, with which the plain ratio breaks at each step at which it learns as fast.
Smoke     python -m experiments.staleness --preset=smoke
"""

import dataclasses
from functools import partial

from experiments.words import stale_groups
from experiments.words.shared_words import SharedTable, Words, moves
from ipsrl import study
from ipsrl.checking.fields import any_of, between, one_of, positive
from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panel, Panels
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import TokenMean
from ipsrl.objectives.catalog.balanced_clipping import BalancedClip
from ipsrl.objectives.catalog.clipping import DivergenceMask, GradientPreservingClip, TruncatedRatio
from ipsrl.objectives.catalog.token_probability import BoundedRatio
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates import (
    ClippedRatio,
    ClippedSequenceRatio,
    ImportanceRatio,
    PolicyGradient,
)
from ipsrl.study.tuning import of_best
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

SURROGATES = {
    "no_ratio": PolicyGradient(),
    "plain": ImportanceRatio(),
    "grpo": ClippedRatio(),
    "clip_higher": ClippedRatio(0.2, 0.28),
    "gppo": GradientPreservingClip(dual_clip=10.0),
    "cispo": TruncatedRatio(),
    "bapo": BalancedClip(),
    "dppo": DivergenceMask(),
    "gspo": ClippedSequenceRatio(3e-4, 4e-4),
    "tis": TruncatedRatio(cap=2.0),
    "mis": BoundedRatio(2.0),
    "answer_ratio": ClippedSequenceRatio(0.5, 1.0, "sum"),
    "gppo_upper": GradientPreservingClip(negative_scale=0.0, dual_clip=10.0),
}
SIX = ("clip_higher", "gppo", "cispo", "bapo", "dppo", "gspo")
NAMES = {name: name.upper() for name in SURROGATES} | {
    "plain": "the plain ratio",
    "grpo": "GRPO's clip",
    "clip_higher": "clip-higher",
    "answer_ratio": "a clip of the answer's ratio",
    "gppo_upper": "GPPO without its gradient below 1 - low",
}
WORDS = Words()
POLICY = SharedTable.of(WORDS)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """A batch has a group for each of 16 prompts."""

    surrogates: tuple[str, ...] = any_of(SURROGATES)
    ages: tuple[int, ...] = study.rising((0, 1, 2, 4, 8), least=0, most=64)
    mini_batches: tuple[int, ...] = one_of(1, 2, 4, 8, 16, default=(8, 4, 1))
    learning_rates: tuple[float, ...] = positive((0.01, 0.03, 0.1))
    seeds: tuple[int, ...] = study.seeds(range(6), least=2)
    group_size: int = between(2, 256, 16)
    intervals: int = positive(20)


PRESETS = {
    "smoke": Settings(("plain", "gppo"), (0, 8), (8,), (0.03,), (0, 1), intervals=2),
    "demo": Settings(),
    "paper": Settings(mini_batches=(8, 4, 2, 1), seeds=tuple(range(20)), intervals=100),
}


def curves(settings: Settings) -> study.Curves:
    for number in settings.mini_batches:
        for name in settings.surrogates:
            labels = {"surrogate": name, "mini_batches": number}
            compute = partial(runs, name, number, settings)
            yield study.Curve(labels, compute, ("age", "learning_rate"))


def runs(name: str, mini_batches: int, settings: Settings) -> study.Points:
    """`reward`, `entropy` and `broken` are those of the end; the others, `score` of the reward, means over the run."""
    training = TrainSettings(
        stale_groups.BATCHES * settings.intervals,
        WORDS.num_prompts,
        settings.group_size,
        max_gradient_norm=None,
        batching=Batching(mini_batches=mini_batches),
    )
    objective = Objective(GroupMeanStd(), SURROGATES[name], TokenMean())
    trainer = Trainer(WORDS, POLICY, objective, training)
    grid = stale_groups.Grid(settings.seeds, settings.ages, settings.learning_rates)
    measured, of_batches = stale_groups.train_on_old_groups(
        trainer, partial(moves, WORDS, POLICY), stale_groups.BATCHES, grid
    )
    metrics = {name: values.mean(-1) for name, values in of_batches.items()}
    reward = measured["reward"]
    courses = measured | {
        "score": reward,
        "masked": metrics.get("clip_fraction", 0 * reward),
        "divergence": metrics["behaviour_kl"],
    }
    values = {name: stale_groups.mean_so_far(course) for name, course in courses.items()} | {
        "reward": reward,
        "entropy": metrics["token_entropy"],
        "broken": stale_groups.broken(reward),
    }
    ends = {name: of_run[..., -1:] for name, of_run in values.items()}
    return stale_groups.points(ends, training.steps, grid)


def arm(name: str, mini_batches: int = 8, age: int = 8) -> dict[str, str | int]:
    """The labels of its runs with all learning rates."""
    return {"surrogate": name, "mini_batches": mini_batches, "age": age}


def at_the_step_of_age_0(number: study.Number) -> study.Number:
    """A number of runs with the step whose mean reward over training is highest at age 0."""
    return study.Best(number, "score", judged_at={"age": 0})


def kept(name: str, mini_batches: int) -> study.Number:
    """The last reward at age 8, less nine tenths of that at age 0."""
    aged, fresh = (study.final("reward", **arm(name, mini_batches, age)) for age in (8, 0))
    return at_the_step_of_age_0(aged - 0.9 * fresh)


def broken(name: str, mini_batches: int) -> study.Number:
    """The share of runs at age 8 that end below half of their best."""
    return at_the_step_of_age_0(study.share("broken", **arm(name, mini_batches)))


def stable(name: str, mini_batches: int) -> study.Claim:
    unbroken = study.below(broken(name, mini_batches), 0.5)
    return study.every([study.above(kept(name, mini_batches), 0.0), unbroken])


def unstable(name: str, mini_batches: int) -> study.Claim:
    mostly_broken = study.above(broken(name, mini_batches), 0.5)
    return study.some([study.below(kept(name, mini_batches), 0.0), mostly_broken])


def learns_more(name: str, other: str) -> study.Claim:
    gain = study.difference("score", arm(name), arm(other))
    return study.above(study.Best(gain, "score"), 0.02)


RULE = "at age 8 with the step best at age 0: last reward above 0.9 of age 0's, most runs end above half of their best"
TIMES = {8: "8 mini-batches", 4: "4 mini-batches", 1: "one mini-batch"}
MARGIN = "each at its best step, by over 0.02 of mean reward in training, 8 mini-batches"
PAIRS = [
    *((name, "plain") for name in SIX),
    ("bapo", "grpo"),
    ("dppo", "clip_higher"),
    ("dppo", "cispo"),
]
CLAIMS = {
    **{
        f"{NAMES[name]} stays stable with {TIMES[8]} ({RULE})": stable(name, 8)
        for name in (*SIX, "tis", "mis", "answer_ratio")
    },
    **{
        f"{NAMES[name]} does not stay stable with {times} ({RULE})": unstable(name, number)
        for number, times in TIMES.items()
        for name in ("plain", "grpo")
    },
    **{
        f"each of the six stays stable with {TIMES[number]} ({RULE})": study.every(
            stable(name, number) for name in SIX
        )
        for number in (4, 1)
    },
    **{
        f"{NAMES[name]} learns more than {NAMES[other]} at age 8: {MARGIN}": learns_more(
            name, other
        )
        for name, other in PAIRS
    },
}
HEADLINE = study.Headline(
    subject="Clips and stale data",
    claim=(
        "Six limits on the importance ratio stay stable on groups several updates old; the "
        "plain ratio and GRPO's do not."
    ),
    scope="words from shared parameters, groups up to eight batches old",
    decided_by=tuple(
        each
        for each in CLAIMS
        if "stable with 8 mini-batches" in each and not each.startswith(("TIS", "MIS", "a clip of"))
    ),
)
NUMBERS = {
    f"{NAMES[name]}, last reward at age 8 with the step best at age 0": at_the_step_of_age_0(
        study.final("reward", **arm(name))
    )
    for name in ("plain", "grpo", *SIX, "gppo_upper")
}
TABLE = of_best(
    study.Table(title="{mini_batches} mini-batches, each at its best step", each="mini_batches"),
    "score",
)
FIGURE = Panels(
    [
        Panel(
            [
                Bars(
                    "reward",
                    by="surrogate",
                    where={"mini_batches": 8, "age": age, "learning_rate": rate},
                    without=("no_ratio",),
                )
            ],
            f"age {age}, learning rate {rate}, 8 mini-batches",
            "exact reward at the end",
            xlim=(0, 1.05),
        )
        for age, rate in ((0, 0.03), (8, 0.03), (8, 0.1))
    ]
)
