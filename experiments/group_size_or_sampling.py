"""Groups without signal: enlarge the groups, throw the silent ones away, or predict which prompts are worth asking?

Claim     Groups that are all right or all wrong teach nothing. It is cheaper to throw them away and to sample other
          prompts (dynamic sampling) than to enlarge groups until they are mixed, and cheaper still to predict from the
          prompt which ones would be silent and not to sample them (DEPO, with 60 % of GRPO's rollouts or fewer).
Paper     Dynamic sampling: arXiv 2503.14476; DEPO: 2602.06375; GRPO's groups of 64: 2402.03300. Our reading: DEPO's
          scorer reads the family of a prompt, has 32 units and learns fast, after a warm-up of a tenth of the run.
Arms      GRPO; dynamic sampling (at most 10 rounds); DEPO; an oracle, DEPO with the exact success of every prompt.
          Placebos: random discard throws away as many groups as dynamic sampling would, but any; random skip skips as
          many prompts as the oracle, but any: GRPO again, which shows the noise. G = 4 to 64 in batches of 256
          trajectories; each arm and G has the best of four learning rates. All that is sampled counts. Accuracy is
          exact, over all of 192 questions in 16 families of first success sigmoid(-6) to sigmoid(6), a third hopeless
          and a third solved; what is learned on a question helps its family (`ipsrl.study.worlds.exams`).
Command   python -m experiments.group_size_or_sampling
Time      demo ten minutes of CPU time, about five minutes on two quiet cores; smoke 15 seconds; paper, not run, hours.
Expected  final accuracy +- 0.03 (eight seeds): GRPO 0.95, dynamic 0.93 (0.88 with groups of 4 and 8: the first claim is
          refuted), DEPO 0.95, oracle 0.93, random skip 0.95, random discard 0.89; at half of the budget GRPO 0.92,
          dynamic 0.84, DEPO 0.92. Thrown away or not, a silent group costs the same: to fill a batch with mixed groups
          takes 3 to 10 batches, and so many times fewer updates. Knowing the difficulty wins nothing over chance.
Doubt     Updates that cost as much as sampling, which is all that we count; small batches that make up for rare updates
          (--batch=64 does not), or another window for the oracle (0.01 to 0.99 does not).
Smoke     python -m experiments.group_size_or_sampling --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ipsrl import study
from ipsrl.fields import at_least, between, non_negative, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.source import Wrapper
from ipsrl.study.claims import exceeds
from ipsrl.study.worlds.exams import Discard, Skip, at_budget, runs_on_exam

ARMS = ("GRPO", "dynamic", "DEPO", "oracle", "random_discard", "random_skip")
MEASURES = ("accuracy", "silent", "survival")
POINTS = 41


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`batch` is a step's trajectories before any is thrown away, `budget` all trajectories of a run."""

    arms: tuple[str, ...] = study.selecting(ARMS)
    group_sizes: tuple[int, ...] = study.selecting((4, 8, 16, 32, 64))
    learning_rates: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    seeds: tuple[int, ...] = study.seeds(tuple(range(8)), least=2)
    prompts: int = positive(192)
    families: int = at_least(2, 16)
    spread: float = non_negative(6.0)
    transfer: float = between(0, 10, 1.0)
    batch: int = positive(256)
    budget: int = positive(32_768)


PRESETS = {
    "smoke": Settings(arms=("GRPO", "oracle"), group_sizes=(8,), learning_rates=(0.2,), seeds=(0, 1), budget=2048),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), prompts=2000, families=20, budget=262_144),
}


def filters(arm: str, settings: Settings) -> tuple[Wrapper, ...]:
    """The batch filters of an arm."""
    warm_up = settings.budget // settings.batch // 10
    of_arms = {
        "dynamic": Discard(),
        "DEPO": DifficultyFilter(warm_up=warm_up, width=32, last_width=32, learning_rate=0.01),
        "oracle": Skip(),
        "random_discard": Discard(at_random=True),
        "random_skip": Skip(at_random=True),
    }
    return (of_arms[arm],) if arm in of_arms else ()


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
    """The curve of an arm with the highest final accuracy, among its learning rates and some or all group sizes."""
    found = [rows for labels, rows in records.where(arm=arm).each() if labels["group_size"] in sizes or not sizes]
    if not found:
        raise NotRecorded(f"there is no record of {arm} with groups of {sizes}")
    return max(found, key=lambda rows: rows.mean("accuracy"))


def accuracy(arm: str, *sizes: int, share: float = 1.0) -> Callable[[Records], Interval]:
    """For NUMBERS: of the best curve, after a share of the budget."""
    return lambda r: interval_of(best(r, arm, *sizes).curve("accuracy")[1][:, round(share * (POINTS - 1))])


CLAIMS = {
    "dynamic sampling with groups of 4 or 8 ends above GRPO with 16 to 64": exceeds(
        accuracy("dynamic", 4, 8), accuracy("GRPO", 16, 32, 64)
    ),
    "dynamic sampling ends above GRPO, each with its best groups": exceeds(accuracy("dynamic"), accuracy("GRPO")),
    "DEPO ends above dynamic sampling": exceeds(accuracy("DEPO"), accuracy("dynamic")),
    "DEPO after 60 % of the budget is above GRPO at its end": exceeds(accuracy("DEPO", share=0.6), accuracy("GRPO")),
    "DEPO ends above random skip": exceeds(accuracy("DEPO"), accuracy("random_skip")),
    "dynamic sampling ends above random discard": exceeds(accuracy("dynamic"), accuracy("random_discard")),
}
NUMBERS = {f"accuracy of {arm}": accuracy(arm) for arm in ARMS} | {
    f"at half of the budget {arm}": accuracy(arm, share=0.5) for arm in ("GRPO", "dynamic", "DEPO")
}


def best_rates(records: Records) -> Records:
    """Of each arm and group size only the curve with the best learning rate."""
    rows = [row for labels, _ in records.each("arm", "group_size") for row in best(records, *labels.values()).rows]
    return dataclasses.replace(records, rows=rows)


def table(records: Records, settings: Settings) -> str:
    return study.Table(MEASURES, "at the end")(best_rates(records), settings)


def figure(records: Records, settings: Settings) -> Drawing:
    frontier = [row | {"shown": "frontier"} for arm in records.distinct("arm") for row in best(records, arm).rows]
    ends = [row | {"shown": "ends"} for row in best_rates(records).at_end().rows]
    return PANELS(dataclasses.replace(records, rows=[*frontier, *ends]), settings)


LEFT = [Line("accuracy", by="arm", where={"shown": "frontier"})], "best group size of each arm", "sampled trajectories"
RIGHT = [Line("accuracy", "group_size", "arm", {"shown": "ends"})], "at the end", "group size"
PANELS = Panels([Panel(*LEFT, "accuracy on all prompts"), Panel(*RIGHT, "accuracy on all prompts", xscale="log2")])
TABLE, FIGURE = table, figure

if __name__ == "__main__":
    study.main(__name__)
