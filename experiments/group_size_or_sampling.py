"""Groups without signal: enlarge the groups, throw the silent ones away, or predict which prompts are worth asking?

Claim     Groups that are all right or all wrong teach nothing. It is cheaper to throw them away and to sample other
          prompts (dynamic sampling) than to enlarge groups until they are mixed, and cheaper still to predict from the
          prompt which ones would be silent and not to sample them (DEPO, with 60 % of GRPO's rollouts or fewer).
Paper     Dynamic sampling: arXiv 2503.14476; DEPO: 2602.06375; GRPO's groups of 64: 2402.03300. Our reading: DEPO's
          scorer reads the family of a prompt, has 32 units and learns fast, after a warm-up of a tenth of the run.
Arms      GRPO; dynamic sampling (at most 10 rounds); DEPO; an oracle, which is DEPO with the exact success of every
          prompt. Placebos: random discard throws away as many sampled groups as dynamic sampling would, but any of
          them; random skip skips as many prompts as the oracle, but any, which is GRPO again and shows the noise.
          G = 4 to 64 in batches of 256 trajectories; each arm and G has the best of four learning rates. All that is
          sampled counts, thrown away or not. Accuracy is exact, and over all prompts, not those kept.
Command   python -m experiments.group_size_or_sampling
Time      demo ten minutes of CPU time, about five minutes on two quiet cores; smoke 15 seconds; paper, not run, hours.
Expected  final accuracy +- 0.03 (eight seeds): GRPO 0.95, dynamic 0.93 (0.88 with groups of 4 and 8: the first claim is
          refuted), DEPO 0.95, oracle 0.93, random skip 0.95, random discard 0.89; at half of the budget GRPO 0.92,
          dynamic 0.84, DEPO 0.92. Thrown away or not, a silent group costs the same: to fill a batch with mixed groups
          takes 3 to 10 batches, and so many times fewer updates. Knowing the difficulty wins nothing over chance.
Doubt     Updates that cost as much as sampling, which is all that we count; small batches that make up for rare updates
          (--batch=64 does not), or another window for the oracle (0.01 to 0.99 does not).
Smoke     python -m experiments.group_size_or_sampling --preset=smoke

192 questions in 16 families; first success rates run from sigmoid(-6) to sigmoid(6), so that a third of the families
are hopeless and a third solved. What is learned on a question helps its family (`ipsrl.study.worlds.exams`).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ipsrl import objectives, study
from ipsrl.fields import at_least, between, non_negative, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.source import Wrapper
from ipsrl.study.worlds.exams import Discard, Exam, Skip, at_budget, budgeted_runs
from ipsrl.training.settings import TrainSettings

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


def filters(arm: str, steps: int) -> tuple[Wrapper, ...]:
    """The batch filters of an arm."""
    depo = DifficultyFilter(warm_up=steps // 10, width=32, last_width=32, learning_rate=0.01)
    of_arms = (), (Discard(),), (depo,), (Skip(),), (Discard(at_random=True),), (Skip(at_random=True),)
    return dict(zip(ARMS, of_arms, strict=True))[arm]


def curves(settings: Settings) -> Iterator[study.Curve]:
    for arm, size in itertools.product(settings.arms, settings.group_sizes):
        for number, rate in enumerate(settings.learning_rates):
            labels = {"arm": arm, "group_size": size, "learning_rate": rate}
            yield study.Curve(labels, functools.partial(points, arm, size, number, settings))


def points(arm: str, size: int, number: int, settings: Settings) -> study.Points:
    """Measures of one learning rate at equal numbers of sampled trajectories."""
    runs, places = trained(arm, size, settings), np.linspace(0, settings.budget, POINTS)
    values = {name: at_budget(runs, name, "trajectories", places)[number] for name in MEASURES}
    return study.Points(places.astype(int), values, settings.seeds)


@functools.lru_cache(maxsize=1)
def trained(arm: str, size: int, settings: Settings) -> dict[str, np.ndarray]:
    """The runs of all learning rates, with the exact accuracy and share of silent groups, over all prompts."""
    exam = Exam.of(settings.prompts, settings.families, settings.transfer)
    steps = settings.budget // settings.batch  # those who throw groups away spend the budget in fewer
    training = TrainSettings(steps, settings.batch // size, size, max_gradient_norm=None)

    def measure(parameters):
        p = exam.success(parameters)
        return {"accuracy": p.mean(), "silent": (p**size + (1 - p) ** size).mean()}

    learner = exam.prior(settings.spread), objectives.make("grpo"), training, filters(arm, steps)
    return budgeted_runs(exam, measure, *learner, settings.learning_rates, settings.seeds)


def best(records: Records, arm: str, *sizes: int) -> Records:
    """The curve of an arm with the highest final accuracy, among its learning rates and some or all group sizes."""
    found = [rows for labels, rows in records.where(arm=arm).each() if labels["group_size"] in sizes or not sizes]
    if not found:
        raise NotRecorded(f"there is no record of {arm} with groups of {sizes}")
    return max(found, key=lambda rows: rows.mean("accuracy"))


def accuracy(arm: str, *sizes: int, share: float = 1.0) -> Callable[[Records], Interval]:
    """For NUMBERS: of the best curve, after a share of the budget."""
    return lambda r: interval_of(best(r, arm, *sizes).curve("accuracy")[1][:, round(share * (POINTS - 1))])


GRPO, DYNAMIC, DEPO = accuracy("GRPO"), accuracy("dynamic"), accuracy("DEPO")
SMALL, LARGE = accuracy("dynamic", 4, 8), accuracy("GRPO", 16, 32, 64)
EARLY, SKIP, DISCARD = accuracy("DEPO", share=0.6), accuracy("random_skip"), accuracy("random_discard")
CLAIMS = {
    "dynamic sampling with groups of 4 or 8 ends above GRPO with 16 to 64": lambda r: SMALL(r).exceeds(LARGE(r)),
    "dynamic sampling ends above GRPO, each with its best groups": lambda r: DYNAMIC(r).exceeds(GRPO(r)),
    "DEPO ends above dynamic sampling": lambda r: DEPO(r).exceeds(DYNAMIC(r)),
    "DEPO after 60 % of the budget is above GRPO at its end": lambda r: EARLY(r).exceeds(GRPO(r)),
    "DEPO ends above random skip": lambda r: DEPO(r).exceeds(SKIP(r)),
    "dynamic sampling ends above random discard": lambda r: DYNAMIC(r).exceeds(DISCARD(r)),
}
NUMBERS = {f"accuracy of {arm}": accuracy(arm) for arm in ARMS} | {
    f"at half of the budget {arm}": accuracy(arm, share=0.5) for arm in ("GRPO", "dynamic", "DEPO")
}


def table(records: Records, settings: Settings) -> str:
    """Of the best learning rates."""
    rows = [row for labels, _ in records.each("arm", "group_size") for row in best(records, *labels.values()).rows]
    return study.Table({name: name for name in MEASURES}, "at the end")(
        dataclasses.replace(records, rows=rows), settings
    )


def figure(records: Records, settings: Settings) -> Drawing:
    frontier = [row | {"shown": "frontier"} for arm in records.distinct("arm") for row in best(records, arm).rows]
    cells = [best(records, *labels.values()).at_end().rows for labels, _ in records.each("arm", "group_size")]
    rows = frontier + [row | {"shown": "ends"} for of_cell in cells for row in of_cell]
    return PANELS(dataclasses.replace(records, rows=rows), settings)


LEFT = [Line("accuracy", by="arm", where={"shown": "frontier"})], "best group size of each arm", "sampled trajectories"
RIGHT = [Line("accuracy", "group_size", "arm", {"shown": "ends"})], "at the end", "group size"
PANELS = Panels([Panel(*LEFT, "accuracy on all prompts"), Panel(*RIGHT, "accuracy on all prompts", xscale="log2")])
TABLE, FIGURE = table, figure

if __name__ == "__main__":
    study.main(__name__)
