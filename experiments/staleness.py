"""Old groups: which limit on the importance ratio keeps a run stable, and does it need one?

Claim     DPPO, BAPO, CISPO, GPPO, GSPO and clip-higher stay stable when the groups are several updates old; the plain
          ratio and GRPO's symmetric clip do not.
Paper     DPPO 2602.04879 (more stable than clip-higher and CISPO), BAPO 2510.18927 (above a fixed clip at staleness 2
          and 4), CISPO 2506.13585, GPPO 2508.07629, GSPO 2507.18071, clip-higher 2503.14476. Stable is our reading: at
          age 8, with 8 mini-batches and the learning rate that is best at age 0, no run ends below half of its best
          reward, and the last reward is at least nine tenths of that at age 0.
Arms      Surrogates: no ratio, the plain one, GRPO's clip, the six, truncated and masked weights (TIS, MIS, at 2), a
          clip of the whole answer's ratio, GPPO without its gradient below 1 - low. All have GRPO's advantages, a mean
          over tokens, and as many sampled words. Placebo for a limit: a smaller step of the plain ratio, from the
          learning rates that all arms have. Age is the number of batches between the policy that sampled and the one
          that learns. Rewards are exact, on words and a policy whose states share parameters, because in tables hardly
          any step is too long (`ipsrl.study.worlds.shared_words`).
Command   python -m experiments.staleness
Time      demo three to four minutes on two CPU cores (six CPU minutes), smoke 15 CPU seconds; paper, not run, an hour.
Expected  last reward at age 0 and at age 8 with the same step, +- 0.09, six seeds: plain 0.82 and 0.82, grpo 0.79 and
          0.72, clip_higher 0.81 and 0.76, gppo 0.83 and 0.49, cispo 0.82 and 0.82, bapo 0.84 and 0.80, dppo 0.80 and
          0.81, gspo 0.86 and 0.93. The last four are stable, the plain ratio as well. GPPO is not: with A < 0 it
          pushes a letter down with weight 0.8 however unlikely it has become; without that, gppo_upper, an arm added
          when this was seen, 0.80 and 0.87. With its best step for age 8 none of the six is above the plain ratio,
          intervals apart, and clip_higher is below. With too large a step, 0.1, only gspo keeps its reward: 0.66, plain 0.34.
Doubt     A policy with hidden layers, or longer answers, on which the plain ratio breaks at every step at which it
          learns as fast as the others. Four letters leave little room between ratios of letters and of words.
Smoke     python -m experiments.staleness --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator

from ipsrl import study
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.seeds import Interval
from ipsrl.objectives.advantages.baselines import GroupMeanStd
from ipsrl.objectives.aggregation import TokenMean
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates import clip_variants, ratio
from ipsrl.records.tidy import Records
from ipsrl.study.claims import all_of, exceeds, tuned
from ipsrl.study.worlds.shared_words import SharedTable, Words, moves
from ipsrl.study.worlds.stale_groups import BATCHES, broken, mean_so_far, points, train_on_old_groups
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
            yield study.Curve(labels, functools.partial(runs, name, number, settings), ("age", "learning_rate"))


def runs(name: str, mini_batches: int, settings: Settings) -> study.Points:
    """`reward`, `entropy` and `broken` are those of the end; the others, `score` of the reward, means over the run."""
    sizes = BATCHES * settings.intervals, WORDS.num_prompts, settings.group_size
    training = TrainSettings(*sizes, max_gradient_norm=None, batching=Batching(mini_batches=mini_batches))
    trainer = Trainer(WORDS, POLICY, Objective(GroupMeanStd(), SURROGATES[name], TokenMean()), training)
    grid = settings.seeds, settings.ages, settings.learning_rates
    measured, of_batches = train_on_old_groups(trainer, functools.partial(moves, WORDS, POLICY), BATCHES, *grid)
    metrics = {name: of.mean(-1) for name, of in of_batches.items()}
    reward, masked = measured["reward"], metrics.get("clip_fraction", 0 * measured["reward"])
    of_run = measured | {"score": reward, "masked": masked, "divergence": metrics["behaviour_kl"]}
    values = {name: mean_so_far(of) for name, of in of_run.items()}
    values |= {"reward": reward, "entropy": metrics["token_entropy"], "broken": broken(reward)}
    return points({name: of[..., -1:] for name, of in values.items()}, training.steps, *grid)


def end(name: str, value: str, age: int, at: int) -> Callable[[Records], Interval]:
    """For NUMBERS: a value of a surrogate at an age, with the learning rate of the best score at age `at`."""
    curve = {"surrogate": name, "mini_batches": 8}
    return lambda records: records.final(value, **tuned(records, "score", **curve, age=at) | {"age": age})


def stable(name: str, wanted: bool, records: Records) -> bool | None:
    """Undecided if the interval of the last reward at age 8 holds nine tenths of that at age 0, and no run broke."""
    keeps = end(name, "reward", 8, 0)(records).exceeds(0.9 * end(name, "reward", 0, 0)(records).mean)
    found = all_of([end(name, "broken", 8, 0)(records).mean == 0, keeps])
    return None if found is None else found is wanted


CLAIMS = {f"{name} stays stable at age 8": functools.partial(stable, name, True) for name in SIX}
CLAIMS |= {f"{name} does not stay stable": functools.partial(stable, name, False) for name in ("plain", "grpo")}
SHOWN = ("plain", "grpo", *SIX, "gppo_upper")
AT_ITS_BEST = {name: end(name, "score", 8, 8) for name in SHOWN}
PAIRS = [(name, "plain") for name in SIX] + [("bapo", "grpo"), ("dppo", "clip_higher"), ("dppo", "cispo")]
MORE = "{} learns more at age 8 than {}, each with its best step"
CLAIMS |= {MORE.format(*pair): exceeds(AT_ITS_BEST[pair[0]], AT_ITS_BEST[pair[1]]) for pair in PAIRS}
NUMBERS = {f"{name}, last reward at age 0": end(name, "reward", 0, 0) for name in SHOWN}
NUMBERS |= {f"{name}, at age 8 with the same step": end(name, "reward", 8, 0) for name in SHOWN}
NUMBERS |= {f"{name}, mean reward at age 8 with its best step": best for name, best in AT_ITS_BEST.items()}
TABLE = study.Table(("reward", "score", "broken", "entropy", "masked", "divergence"), where={"mini_batches": 8})


def panel(age: int, rate: float) -> Panel:
    where = {"mini_batches": 8, "age": age, "learning_rate": rate}
    bars = Bars("reward", by="surrogate", where=where, without=("no_ratio", "tis", "mis", "answer_ratio"))
    title = f"age {age}, learning rate {rate:g}, 8 mini-batches"
    return Panel([bars], title, "exact reward at the end", xlim=(0, 1.05))


FIGURE = Panels([panel(0, 0.03), panel(8, 0.03), panel(8, 0.1)])

if __name__ == "__main__":
    study.main(__name__)
