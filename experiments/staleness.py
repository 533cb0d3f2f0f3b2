"""Old groups: which limit on the importance ratio keeps a run stable, and does it need one?

Claim     DPPO, BAPO, CISPO, GPPO, GSPO and clip-higher stay stable when the groups are several updates old; the plain
          ratio and GRPO's symmetric clip do not.
Paper     DPPO 2602.04879 (more stable than clip-higher and CISPO), BAPO 2510.18927 (above a fixed clip at staleness 2
          and 4), CISPO 2506.13585, GPPO 2508.07629, GSPO 2507.18071, clip-higher 2503.14476. Stable is our reading: at
          age 8, with 8 mini-batches and the learning rate that is best at age 0, no run ends below half of its best
          reward, and the last reward is at least nine tenths of that at age 0.
Arms      Only surrogates differ; advantages are GRPO's, the mean is over tokens, all sample the same number of words.
          No ratio, the plain ratio, GRPO's clip, the six, truncated and masked weights (TIS, MIS, at 2), a clip of the
          whole answer's ratio. Placebo for a limit: a smaller step of the plain ratio, from the grid that all arms have.
Command   python -m experiments.staleness
Time      TODO
Expected  TODO
Doubt     TODO
Smoke     python -m experiments.staleness --preset=smoke

Age is the number of batches between the policy that sampled and the one that learns. Rewards are exact, on words and a
policy whose states share parameters (`ipsrl.study.shared_words`): in a table of logits hardly any step is too large.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from ipsrl import study
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.objectives.advantages.baselines import GroupMeanStd
from ipsrl.objectives.aggregation import TokenMean
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates import clip_variants, ratio
from ipsrl.study.shared_words import SharedTable, Words, moves
from ipsrl.study.stale_groups import train_on_old_groups
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


BATCHES = 10  # of an interval between two records
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
    batch = {"prompts_per_step": WORDS.num_prompts, "group_size": settings.group_size, "max_gradient_norm": None}
    training = TrainSettings(BATCHES * settings.intervals, batching=Batching(mini_batches=mini_batches), **batch)
    trainer = Trainer(WORDS, POLICY, Objective(GroupMeanStd(), SURROGATES[name], TokenMean()), training)
    grid = settings.seeds, settings.ages, settings.learning_rates
    measured, metrics = train_on_old_groups(trainer, functools.partial(moves, WORDS, POLICY), BATCHES, *grid)
    reward, masked = measured["reward"], metrics.get("clip_fraction", 0 * measured["reward"])
    of_run = measured | {"score": reward, "masked": masked, "divergence": metrics["behaviour_kl"]}
    values = {name: of.cumsum(-1) / np.arange(1, settings.intervals + 1) for name, of in of_run.items()}
    values |= {"reward": reward, "entropy": metrics["token_entropy"], "broken": broken(reward)}
    _, values["age"], values["learning_rate"], number = np.meshgrid(*grid, range(settings.intervals), indexing="ij")
    by_seed = {name: of.reshape(len(settings.seeds), -1) for name, of in values.items()}
    return study.Points(BATCHES * (1 + number[0].ravel()), by_seed, settings.seeds)


def broken(reward: np.ndarray) -> np.ndarray:
    """1 where a reward `[..., U]` is below half of the best so far, else 0."""
    return (reward < np.maximum.accumulate(reward, axis=-1) / 2).astype(float)


def tuned(records, name: str, age: int, at: int) -> dict:
    """The labels of a surrogate's runs at an age, with the learning rate of the best score at age `at`."""
    where = {"surrogate": name, "mini_batches": 8}
    rates = records.where(**where).distinct("learning_rate")
    best = max(rates, key=lambda rate: records.mean("score", **where, age=at, learning_rate=rate), default=0.0)
    return where | {"age": age, "learning_rate": best}


def stable(name: str, wanted: bool, records) -> bool | None:
    """Undecided if the interval of the last reward at age 8 holds nine tenths of that at age 0, and no run broke."""
    fresh, old = tuned(records, name, 0, at=0), tuned(records, name, 8, at=0)
    bar = 0.9 * records.mean("reward", **fresh)
    if records.ends("broken", **old).any() or records.high("reward", **old) < bar:
        return not wanted
    return wanted if records.low("reward", **old) >= bar else None


def learns_more(name: str, other: str, records) -> bool | None:
    """By the scores at age 8, with the learning rate that is best there; undecided if intervals overlap."""
    one, two = (tuned(records, each, 8, at=8) for each in (name, other))
    if records.low("score", **one) > records.high("score", **two):
        return True
    return False if records.high("score", **one) < records.low("score", **two) else None


def number(name: str, value: str, age: int, at: int):
    return lambda records: records.final(value, **tuned(records, name, age, at))


def panel(value: str, ylabel: str, rate: float = 0.03) -> Panel:
    line = Line(value, "age", "surrogate", {"mini_batches": 8, "learning_rate": rate}, at_end=True)
    return Panel([line], f"learning rate {rate:g}, 8 mini-batches", "age of the groups (batches)", ylabel)


CLAIMS = {f"{name} stays stable at age 8": functools.partial(stable, name, True) for name in SIX}
CLAIMS |= {f"{name} does not stay stable": functools.partial(stable, name, False) for name in ("plain", "grpo")}
PAIRS = [(name, "plain") for name in SIX] + [("bapo", "grpo"), ("dppo", "clip_higher"), ("dppo", "cispo")]
MORE = "{} learns more at age 8 than {}, each with its best step"
CLAIMS |= {MORE.format(*pair): functools.partial(learns_more, *pair) for pair in PAIRS}
NUMBERS = {f"{name}, last reward at age 0": number(name, "reward", 0, 0) for name in SURROGATES}
NUMBERS |= {f"{name}, at age 8 with the same step": number(name, "reward", 8, 0) for name in SURROGATES}
NUMBERS |= {f"{name}, mean reward at age 8 with its best step": number(name, "score", 8, 8) for name in SURROGATES}
TABLE = study.Table(("reward", "score", "broken", "entropy", "masked", "divergence"), where={"mini_batches": 8})
OTHERS = {"masked": "share of tokens masked", "divergence": "KL from the sampler", "entropy": "entropy (nats)"}
REWARDS = [panel("reward", "exact reward at the end", rate) for rate in (0.01, 0.03, 0.1)]
FIGURE = Panels([*REWARDS, *(panel(*each) for each in OTHERS.items())], columns=3)

if __name__ == "__main__":
    study.main(__name__)
