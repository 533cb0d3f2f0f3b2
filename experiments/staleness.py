"""Old groups: which limit on the importance ratio keeps a run stable, and does it need one?

Claim     DPPO, BAPO, CISPO, GPPO, GSPO and clip-higher stay stable when the groups are several updates old; the plain
          ratio and GRPO's symmetric clip do not.
Paper     DPPO 2602.04879 (more stable than clip-higher and CISPO), BAPO 2510.18927 (above a fixed clip at staleness 2
          and 4), CISPO 2506.13585, GPPO 2508.07629, GSPO 2507.18071, clip-higher 2503.14476. Stable is our reading.
Arms      Surrogates: no ratio, the plain one, GRPO's clip, the six, truncated and masked weights (TIS, MIS, at 2), a
          clip of the whole answer's ratio, GPPO without its gradient below 1 - low. All have GRPO's advantages, a mean
          over tokens, and as many sampled words. Placebo for a limit: a smaller step of the plain ratio. The best step
          has the highest mean reward in training, on the seeds reported; differences are paired by seed. Age is the
          number of batches between the policy that sampled and the one that learns. Rewards are exact; states share
          parameters, because in tables hardly any step is too long (`experiments.words.shared_words`).
Command   python -m experiments.staleness
Time      demo three to four minutes on two CPU cores (six CPU minutes), smoke 15 CPU seconds; paper, not run, an hour.
Expected  last reward at age 0 and at age 8 with the same step, 8 mini-batches, +- 0.09, six seeds: plain 0.82 and 0.82,
          grpo 0.79 and 0.72, clip_higher 0.81 and 0.76, gppo 0.83 and 0.49, cispo 0.82 and 0.82, bapo 0.84 and 0.80,
          dppo 0.80 and 0.81, gspo 0.86 and 0.93. Plain, CISPO, DPPO and GSPO are stable; GRPO's clip, clip-higher and
          BAPO undecided. GPPO is not: it lowers letters however unlikely; without that (gppo_upper, added later) 0.87.
Doubt     Hidden layers, or longer answers, with which the plain ratio breaks at each step at which it learns as fast.
Smoke     python -m experiments.staleness --preset=smoke
"""

import dataclasses
from collections.abc import Iterable, Iterator
from functools import partial

from experiments.words import stale_groups
from experiments.words.shared_words import SharedTable, Words, moves
from experiments.words.stale_groups import BATCHES, Ends, beyond, ends, mean, mean_so_far
from ipsrl import study
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panel, Panels
from ipsrl.objectives.advantages.baselines import GroupMeanStd
from ipsrl.objectives.aggregation import TokenMean
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates import clip_variants, ratio
from ipsrl.records.tidy import Records
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

SIX = {
    "clip_higher": ratio.ClippedRatio(0.2, 0.28),
    "gppo": clip_variants.GradientPreservingClip(dual_clip=10.0),
    "cispo": clip_variants.TruncatedRatio(),
    "bapo": clip_variants.BalancedClip(),
    "dppo": clip_variants.DivergenceMask(),
    "gspo": ratio.ClippedSequenceRatio(3e-4, 4e-4),
}
SURROGATES = {
    "no_ratio": ratio.PolicyGradient(),
    "plain": clip_variants.ImportanceRatio(),
    "grpo": ratio.ClippedRatio(),
    **SIX,
    "tis": clip_variants.TruncatedRatio(cap=2.0),
    "mis": ratio.BoundedRatio(2.0),
    "answer_ratio": ratio.ClippedSequenceRatio(0.5, 1.0, "sum"),
    "gppo_upper": clip_variants.GradientPreservingClip(negative_scale=0.0, dual_clip=10.0),
}
PARTS = ("tis", "mis", "answer_ratio")
NAMES = {
    "no_ratio": "no ratio",
    "plain": "the plain ratio",
    "grpo": "GRPO's clip",
    "clip_higher": "clip-higher",
}
NAMES |= {
    "answer_ratio": "a clip of the answer's ratio",
    "gppo_upper": "GPPO without its gradient below 1 - low",
}
NAMES |= {name: name.upper() for name in SURROGATES if name not in NAMES}
WORDS = Words()
POLICY = SharedTable(WORDS.num_observations, WORDS.vocabulary_size)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """A batch has a group for each of 16 prompts."""

    surrogates: tuple[str, ...] = one_of(*SURROGATES, default=tuple(SURROGATES))
    ages: tuple[int, ...] = study.rising((0, 1, 2, 4, 8), least=0, most=64)
    mini_batches: tuple[int, ...] = one_of(1, 2, 4, 8, 16, default=(8, 4, 1))
    learning_rates: tuple[float, ...] = positive((0.01, 0.03, 0.1))
    seeds: tuple[int, ...] = study.seeds(tuple(range(6)), least=2)
    group_size: int = between(2, 256, 16)
    intervals: int = positive(20)


PRESETS = {
    "smoke": Settings(("plain", "gppo"), (0, 8), (8,), (0.03,), (0, 1), intervals=2),
    "demo": Settings(),
    "paper": Settings(mini_batches=(8, 4, 2, 1), seeds=tuple(range(20)), intervals=100),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for number in settings.mini_batches:
        for name in settings.surrogates:
            labels = {"surrogate": name, "mini_batches": number}
            yield study.Curve(
                labels, partial(runs, name, number, settings), ("age", "learning_rate")
            )


def runs(name: str, mini_batches: int, settings: Settings) -> study.Points:
    """`reward`, `entropy` and `broken` are those of the end; the others, `score` of the reward, means over the run."""
    sizes = BATCHES * settings.intervals, WORDS.num_prompts, settings.group_size
    training = TrainSettings(
        *sizes, max_gradient_norm=None, batching=Batching(mini_batches=mini_batches)
    )
    trainer = Trainer(
        WORDS, POLICY, Objective(GroupMeanStd(), SURROGATES[name], TokenMean()), training
    )
    grid = settings.seeds, settings.ages, settings.learning_rates
    measured, of_batches = stale_groups.train_on_old_groups(
        trainer, partial(moves, WORDS, POLICY), BATCHES, *grid
    )
    metrics = {name: of.mean(-1) for name, of in of_batches.items()}
    reward, masked = measured["reward"], metrics.get("clip_fraction", 0 * measured["reward"])
    of_run = measured | {"score": reward, "masked": masked, "divergence": metrics["behaviour_kl"]}
    values = {name: mean_so_far(of) for name, of in of_run.items()}
    values |= {
        "reward": reward,
        "entropy": metrics["token_entropy"],
        "broken": stale_groups.broken(reward),
    }
    return stale_groups.points(
        {name: of[..., -1:] for name, of in values.items()}, training.steps, *grid
    )


def end(name: str, value: str, age: int, best_at: int, mini_batches: int = 8) -> Ends:
    """At the learning rate whose mean reward over training is highest at the age `best_at`."""
    return ends(
        value, "score", {"age": best_at}, surrogate=name, mini_batches=mini_batches, age=age
    )


def kept(name: str, mini_batches: int = 8) -> study.Number:
    """The last reward at age 8, less nine tenths of that at age 0 of the same seed."""
    return beyond(
        end(name, "reward", 8, 0, mini_batches), end(name, "reward", 0, 0, mini_batches), times=0.9
    )


def stable(names: Iterable[str], number: int, wanted: bool, records: Records) -> bool | None:
    """Whether all of some surrogates are, or are not, with a number of mini-batches."""
    unbroken = (not end(name, "broken", 8, 0, number)(records).any() for name in names)
    found = study.all_of([*unbroken, *(kept(name, number)(records).exceeds(0.0) for name in names)])
    return None if found is None else found is wanted


RULE = "(at age 8 with the step best at age 0: last reward above 0.9 of age 0's, no run ends below half of its best)"
TIMES = {8: "8 mini-batches", 4: "4 mini-batches", 1: "one mini-batch"}
STABLE, NOT = f"{{}} stays stable with {{}} {RULE}", f"{{}} does not stay stable with {{}} {RULE}"
CLAIMS = {STABLE.format(NAMES[n], TIMES[8]): partial(stable, (n,), 8, True) for n in (*SIX, *PARTS)}
CLAIMS |= {
    NOT.format(NAMES[n], TIMES[m]): partial(stable, (n,), m, False)
    for m in TIMES
    for n in ("plain", "grpo")
}
CLAIMS |= {
    STABLE.format("each of the six", TIMES[m]): partial(stable, SIX, m, True) for m in (4, 1)
}
BEST = {name: end(name, "score", 8, 8) for name in SURROGATES}
PAIRS = [(name, "plain") for name in SIX] + [
    ("bapo", "grpo"),
    ("dppo", "clip_higher"),
    ("dppo", "cispo"),
]
MORE = "{} learns more than {} at age 8: each at its best step, by over 0.02 of mean reward in training, 8 mini-batches"
CLAIMS |= {
    MORE.format(NAMES[a], NAMES[b]): study.above(beyond(BEST[a], BEST[b]), 0.02) for a, b in PAIRS
}
NUMBERS = {f"{NAMES[n]}, last reward at age 0": mean(end(n, "reward", 0, 0)) for n in SURROGATES}
NUMBERS |= {
    f"{NAMES[n]}, last reward at age 8 with the same step": mean(end(n, "reward", 8, 0))
    for n in SURROGATES
}
KEPT = "{}, {}: last reward at age 8 less 0.9 of that at age 0, same step"
NUMBERS |= {KEPT.format(NAMES[n], TIMES[m]): kept(n, m) for m in TIMES for n in SURROGATES}
NUMBERS |= {
    f"{NAMES[n]}, mean reward at age 8 with its best step": mean(best) for n, best in BEST.items()
}
TABLE = study.Table(
    title="{mini_batches} mini-batches", where={"learning_rate": 0.03}, each="mini_batches"
)
WHERE = [
    {"mini_batches": 8, "age": age, "learning_rate": rate}
    for age, rate in ((0, 0.03), (8, 0.03), (8, 0.1))
]
TITLE = "age {age}, learning rate {learning_rate}, {mini_batches} mini-batches"
BARS = {
    TITLE.format(**at): Bars("reward", by="surrogate", where=at, without=("no_ratio",))
    for at in WHERE
}
FIGURE = Panels(
    [
        Panel([bars], title, "exact reward at the end", xlim=(0, 1.05))
        for title, bars in BARS.items()
    ]
)

if __name__ == "__main__":
    study.main(__name__)
