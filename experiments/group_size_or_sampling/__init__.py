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
Expected  Final accuracy +- 0.04: GRPO and DEPO 0.94, dynamic sampling 0.89, the oracle 0.91, random skip 0.94, random
          discard 0.85. A silent group that is thrown away costs as much as one that is kept: a batch of mixed ones
          takes three to ten batches, and so many times fewer updates. To know the difficulty is worth no more than to
          skip prompts by chance.
Doubt     Updates that cost as much as sampling, which is all that we count; small batches that make up for rare updates
          (--batch=64 does not), or another window for the oracle (0.01 to 0.99 does not).
Smoke     python -m experiments.group_size_or_sampling --preset=smoke
"""

import dataclasses
import functools
import itertools

import numpy as np

from experiments.exams.exam import BudgetedRuns, Discard, Exam, Skip, trainer_for
from ipsrl import objectives, study
from ipsrl.checking.fields import any_of, at_least, between, non_negative, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.records.tidy import Records
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.source import Wrapper
from ipsrl.study.claims import above
from ipsrl.study.tuning import best_for_others, of_best
from ipsrl.training.settings import TrainSettings

ARMS = ("GRPO", "dynamic", "DEPO", "oracle", "random_discard", "random_skip")
POINTS = 41


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`batch` is a step's trajectories before any is thrown away, `budget` all trajectories of a run."""

    arms: tuple[str, ...] = study.selecting(any_of(ARMS))
    group_sizes: tuple[int, ...] = study.selecting(at_least(2, (4, 8, 16, 32, 64)))
    learning_rates: tuple[float, ...] = positive((0.05, 0.1, 0.2, 0.4, 0.8))
    seeds: tuple[int, ...] = study.seeds(range(8), least=2)
    prompts: int = positive(192)
    families: int = at_least(2, 16)
    spread: float = non_negative(6.0)
    transfer: float = between(0, 10, 1.0)
    batch: int = positive(256)
    budget: int = positive(32_768)

    def __post_init__(self):
        super().__post_init__()
        for size in self.group_sizes:
            if self.batch % size:
                raise ValueError(
                    f"--group_sizes has {size}, it must divide --batch, which is {self.batch}"
                )
        if self.budget % self.batch:
            raise ValueError(
                f"--budget is {self.budget}, it must be a multiple of --batch, which is {self.batch}"
            )

    @property
    def updates(self) -> int:
        """The updates of a run that throws nothing away; others spend their budget in fewer."""
        return self.budget // self.batch


PRESETS = {
    "smoke": Settings(
        arms=("GRPO", "oracle"), group_sizes=(8,), learning_rates=(0.2,), seeds=(0, 1), budget=2048
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), prompts=2000, families=20, budget=262_144),
}


def filters(arm: str, settings: Settings) -> tuple[Wrapper, ...]:
    """The batch filters of an arm."""
    predicts = DifficultyFilter(
        warm_up=settings.updates // 10, width=32, last_width=32, learning_rate=0.01
    )
    return {
        "GRPO": (),
        "dynamic": (Discard(),),
        "DEPO": (predicts,),
        "oracle": (Skip(),),
        "random_discard": (Discard(at_random=True),),
        "random_skip": (Skip(at_random=True),),
    }[arm]


def curves(settings: Settings) -> study.Curves:
    places = np.linspace(0, settings.budget, POINTS)
    for arm, size in itertools.product(settings.arms, settings.group_sizes):
        labels = {"arm": arm, "group_size": size}
        yield from runs(arm, size, settings).curves(labels, "trajectories", places)


def runs(arm: str, group_size: int, settings: Settings) -> BudgetedRuns:
    exam = Exam.of(settings.prompts, settings.families, settings.transfer)
    prompts_per_step = settings.batch // group_size
    training = TrainSettings(settings.updates, prompts_per_step, group_size, max_gradient_norm=None)
    return BudgetedRuns(
        trainer_for(exam, objectives.make("grpo"), training, filters(arm, settings)),
        functools.partial(exam.measures, group_size),
        exam.prior(settings.spread),
        settings.learning_rates,
        settings.seeds,
    )


at_best_rate = functools.partial(best_for_others, score="accuracy")
at_best_size = functools.partial(at_best_rate, among=("learning_rate", "group_size"))


def accuracy(arm: str) -> study.Number:
    """The accuracy of an arm at the end, at its best learning rate and group size."""
    final = study.final("accuracy", arm=arm)
    return study.Best(final, "accuracy", ("learning_rate", "group_size"))


def accuracy_after(share: float, arm: str) -> study.Number:
    """The same after a share of the budget; the best ones are those at its end."""

    def measure(records: Records) -> np.ndarray:
        return at_best_size(records).curve("accuracy")[1][:, round(share * (POINTS - 1))]

    return study.Computed(f"accuracy after {share} of the budget", measure, {"arm": arm})


def accuracy_with(sizes: tuple[int, ...], arm: str) -> study.Number:
    """The accuracy of an arm at the end, at its best learning rate and the best of these group sizes."""

    def measure(records: Records) -> np.ndarray:
        rows = [row for row in records.rows if row["group_size"] in sizes]
        return at_best_size(dataclasses.replace(records, rows=rows)).ends("accuracy")

    return study.Computed(f"accuracy with groups of {sizes}", measure, {"arm": arm})


CLAIMS = {
    "dynamic sampling with groups of 4 or 8 ends more than 0.01 above GRPO with 16 to 64 in accuracy": above(
        accuracy_with((4, 8), "dynamic"), accuracy_with((16, 32, 64), "GRPO"), 0.01
    ),
    "dynamic sampling ends more than 0.01 above GRPO in accuracy": above(
        accuracy("dynamic"), accuracy("GRPO"), 0.01
    ),
    "DEPO ends more than 0.01 above dynamic sampling in accuracy": above(
        accuracy("DEPO"), accuracy("dynamic"), 0.01
    ),
    "DEPO ends more than 0.01 above random skip in accuracy": above(
        accuracy("DEPO"), accuracy("random_skip"), 0.01
    ),
    "dynamic sampling ends more than 0.01 above random discard in accuracy": above(
        accuracy("dynamic"), accuracy("random_discard"), 0.01
    ),
    "DEPO after 60 % of the budget is at most 0.01 below GRPO at its end in accuracy": above(
        accuracy_after(0.6, "DEPO"), accuracy("GRPO"), -0.01
    ),
}
HEADLINE = study.Headline(
    subject="Groups, prompts and budgets",
    claim=(
        "Throwing silent groups away beats larger groups, and predicting which prompts are "
        "silent beats both."
    ),
    scope="an exam in a table of logits, equal budgets",
    decided_by=(
        "dynamic sampling ends more than 0.01 above GRPO in accuracy",
        "DEPO ends more than 0.01 above dynamic sampling in accuracy",
        "DEPO after 60 % of the budget is at most 0.01 below GRPO at its end in accuracy",
    ),
)
NUMBERS = {f"accuracy of {arm.replace('_', ' ')}": accuracy(arm) for arm in ARMS}
TABLE = of_best(
    study.Table(("accuracy", "silent", "prompt_survival", "learning_rate"), "at the end"),
    "accuracy",
)


def FIGURE(records: Records, settings: Settings) -> Drawing:
    frontier = [row | {"shown": "frontier"} for row in at_best_size(records).rows]
    ends = [row | {"shown": "ends"} for row in at_best_rate(records).at_end().rows]
    return PANELS(dataclasses.replace(records, rows=[*frontier, *ends]), settings)


FRONTIER = Panel(
    [Line("accuracy", by="arm", where={"shown": "frontier"})],
    "best group size of each arm",
    "sampled trajectories",
    "accuracy on all prompts",
)
ENDS = Panel(
    [Line("accuracy", "group_size", "arm", {"shown": "ends"})],
    "at the end",
    "group size",
    "accuracy on all prompts",
    xscale="log2",
)
PANELS = Panels([FRONTIER, ENDS])
