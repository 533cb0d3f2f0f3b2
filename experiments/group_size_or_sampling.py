"""Groups without signal: enlarge the groups, throw the silent ones away, or predict which prompts are worth asking?

Claim     Groups that are all right or all wrong teach nothing. It is cheaper to throw them away and to sample other
          prompts (dynamic sampling) than to enlarge groups until they are mixed, and cheaper still to predict from the
          prompt which ones would be silent and not to sample them (DEPO, with 60 % of GRPO's rollouts or fewer).
Paper     Dynamic sampling: arXiv 2503.14476; DEPO: 2602.06375; GRPO's groups of 64: 2402.03300. Our reading: DEPO's
          scorer reads the family of a prompt, has 32 units and learns fast, after a warm-up of a tenth of the run.
Arms      GRPO; dynamic sampling (at most 10 rounds); DEPO; an oracle, which is DEPO with the exact success of prompts.
          Placebos: random discard and random skip throw away as many groups as dynamic sampling, or skip as many
          prompts as the oracle, but any; random skip is GRPO again and shows the noise. G = 4 to 64 in batches of 256
          trajectories, five learning rates; each half of the seeds has the rate, and where none is named the G, that
          are best for the other half. All that is sampled counts, thrown away or not. Accuracy is exact, on 192
          questions in 16 families, a third of them hopeless at first and a third solved (`exams.exam`).
Command   python -m experiments.group_size_or_sampling
Time      demo twelve minutes of CPU time, smoke 15 seconds; paper, not run, hours.
Expected  final accuracy +- 0.04 (eight seeds): GRPO 0.94, dynamic 0.89, DEPO 0.94, oracle 0.91, random skip 0.94,
          random discard 0.85; at half of the budget GRPO 0.89, dynamic 0.83, DEPO 0.87. A silent group that is thrown
          away costs as much as one that is kept: a batch of mixed ones takes 3 to 10 batches, and so many times fewer
          updates. To know the difficulty is worth no more than to skip prompts by chance.
Doubt     Updates that cost as much as sampling, which is all that we count; small batches that make up for rare updates
          (--batch=64 does not), or another window for the oracle (0.01 to 0.99 does not).
Smoke     python -m experiments.group_size_or_sampling --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.exams.exam import Discard, Skip, at_budget, require_whole_batches, runs_on_exam
from ipsrl import study
from ipsrl.fields import at_least, between, non_negative, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records, interval_of
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.source import Wrapper
from ipsrl.study.claims import above
from ipsrl.study.numbers import Number
from ipsrl.study.tuning import best_for_others

ARMS = ("GRPO", "dynamic", "DEPO", "oracle", "random_discard", "random_skip")
MEASURES, POINTS = ("accuracy", "silent", "prompt_survival"), 41


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`batch` is a step's trajectories before any is thrown away, `budget` all trajectories of a run."""

    arms: tuple[str, ...] = study.selecting(one_of(*ARMS, default=ARMS))
    group_sizes: tuple[int, ...] = study.selecting(at_least(2, (4, 8, 16, 32, 64)))
    learning_rates: tuple[float, ...] = positive((0.05, 0.1, 0.2, 0.4, 0.8))
    seeds: tuple[int, ...] = study.seeds(tuple(range(8)), least=2)
    prompts: int = positive(192)
    families: int = at_least(2, 16)
    spread: float = non_negative(6.0)
    transfer: float = between(0, 10, 1.0)
    batch: int = positive(256)
    budget: int = positive(32_768)

    def __post_init__(self):
        super().__post_init__()
        require_whole_batches(self)


PRESETS = {
    "smoke": Settings(
        arms=("GRPO", "oracle"), group_sizes=(8,), learning_rates=(0.2,), seeds=(0, 1), budget=2048
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), prompts=2000, families=20, budget=262_144),
}


def filters(arm: str, settings: Settings) -> tuple[Wrapper, ...]:
    """The batch filters of an arm."""
    warm_up = settings.budget // settings.batch // 10
    predicts = DifficultyFilter(warm_up=warm_up, width=32, last_width=32, learning_rate=0.01)
    return {
        "GRPO": (),
        "dynamic": (Discard(),),
        "DEPO": (predicts,),
        "oracle": (Skip(),),
        "random_discard": (Discard(at_random=True),),
        "random_skip": (Skip(at_random=True),),
    }[arm]


def curves(settings: Settings) -> Iterator[study.Curve]:
    for arm, size in itertools.product(settings.arms, settings.group_sizes):
        for number, rate in enumerate(settings.learning_rates):
            labels = {"arm": arm, "group_size": size, "learning_rate": rate}
            yield study.Curve(labels, functools.partial(points, arm, size, number, settings))


def points(arm: str, size: int, number: int, settings: Settings) -> study.Points:
    """Measures of one learning rate at equal numbers of sampled trajectories."""
    runs = runs_on_exam(filters(arm, settings), size, settings)
    places = np.linspace(0, settings.budget, POINTS)
    values = {name: at_budget(runs, name, "trajectories", places)[number] for name in MEASURES}
    return study.Points(places.astype(int), values, settings.seeds)


def best(records: Records, arm: str, *sizes: int) -> Records:
    """An arm at its best learning rate and group size, among some sizes or all."""
    rows = [row for row in records.where(arm=arm).rows if not sizes or row["group_size"] in sizes]
    return best_for_others(
        dataclasses.replace(records, rows=rows), "accuracy", ("learning_rate", "group_size")
    )


def accuracy(one: Sequence[Any], other: Sequence[Any] = (), share: float = 1.0) -> Number:
    """For NUMBERS: of an arm after a share of the budget, less that of another arm, seed by seed, at its end."""

    def measure(records: Records) -> Interval:
        found = best(records, *one).curve("accuracy")[1][:, round(share * (POINTS - 1))]
        return interval_of(found - best(records, *other).ends("accuracy") if other else found)

    return measure


GAINS = {
    ("dynamic sampling with groups of 4 or 8", "GRPO with 16 to 64"): accuracy(
        ("dynamic", 4, 8), ("GRPO", 16, 32, 64)
    ),
    ("dynamic sampling", "GRPO"): accuracy(["dynamic"], ["GRPO"]),
    ("DEPO", "dynamic sampling"): accuracy(["DEPO"], ["dynamic"]),
    ("DEPO", "random skip"): accuracy(["DEPO"], ["random_skip"]),
    ("dynamic sampling", "random discard"): accuracy(["dynamic"], ["random_discard"]),
}
EARLIER = accuracy(["DEPO"], ["GRPO"], share=0.6)
CLAIMS = {
    f"{a} ends more than 0.01 above {b} in accuracy": above(gain, 0.01)
    for (a, b), gain in GAINS.items()
}
CLAIMS |= {
    "DEPO after 60 % of the budget is at most 0.01 below GRPO at its end in accuracy": above(
        EARLIER, -0.01
    )
}
NUMBERS = {f"accuracy of {arm.replace('_', ' ')}": accuracy([arm]) for arm in ARMS}
NUMBERS |= {
    f"accuracy of {arm} at half of the budget": accuracy([arm], share=0.5) for arm in ARMS[:3]
}
NUMBERS |= {f"accuracy of {a} - {b}": gain for (a, b), gain in GAINS.items()}
NUMBERS["accuracy of DEPO after 60 % of the budget - GRPO at its end"] = EARLIER


def table(records: Records, settings: Settings) -> str:
    return study.Table((*MEASURES, "learning_rate"), "at the end")(
        best_for_others(records, "accuracy"), settings
    )


def figure(records: Records, settings: Settings) -> Drawing:
    frontier = [
        row | {"shown": "frontier"}
        for arm in records.distinct("arm")
        for row in best(records, arm).rows
    ]
    ends = [row | {"shown": "ends"} for row in best_for_others(records, "accuracy").at_end().rows]
    return PANELS(dataclasses.replace(records, rows=[*frontier, *ends]), settings)


LEFT = (
    [Line("accuracy", by="arm", where={"shown": "frontier"})],
    "best group size of each arm",
    "sampled trajectories",
)
RIGHT = [Line("accuracy", "group_size", "arm", {"shown": "ends"})], "at the end", "group size"
TABLE, FIGURE, ACCURACY = table, figure, "accuracy on all prompts"
PANELS = Panels([Panel(*LEFT, ACCURACY), Panel(*RIGHT, ACCURACY, xscale="log2")])

if __name__ == "__main__":
    study.main(__name__)
