"""Every objective on one environment: which outcomes does each leave, at a reward of at least a common bar?

Claim     Of no one paper, on equal terms: rules that pay for rarity keep more outcomes at a reward of at least the bar
          than the expected return does, and than a placebo, which is GRPO with random weights of the same variance.
Paper     arXiv 2601.21669 and the papers of docs/objectives.md.
Command   python -m experiments.compare --environment=bandit --out=OUT
          or =hypergrid, =hypospace_boolean, or any other, as in --environment="hypergrid(dimensions=4)"; or the groups
          that any trainer has logged, --environment=FILE.jsonl. Each wants an OUT of its own
Time      on two CPU cores for all objectives, most of it compilation, which a second run of the same command does not
          need. bandit and hypergrid: demo eight and eleven minutes, smoke three; hypospace_boolean: demo an hour, smoke
          eight; paper, not run, hours. docs/figures.md has all on the bandit, and four on the two others.
Expected  effective outcomes at the end and reward as a share of the best possible one, +- 0.3 and 0.01. bandit:
          trajectory_balance 6.2 at 0.90, ips_grpo 5.7 at 0.93, darling 4.1 at 1.00, placebo 1.6 at 1.00 (interval 1.3
          to 1.9), grpo 1.2 at 1.00. hypergrid: trajectory_balance 27.7 at 0.55, ips_grpo 11.9 at 0.71, darling 4.1 at
          1.00, placebo 1.1 and grpo 1.0 at 1.00. hypospace_boolean (one seed, all at 0.99 or more): ips_grpo 4.1,
          darling 4.1, grpo 1.3 (1.7 on another machine).
Smoke     python -m experiments.compare --preset=smoke

What equal terms are, what they hide, and how ranks are found: docs/comparison.md. With --resume, OUT keeps its
objectives and learning rates and trains new ones.
"""

import dataclasses
import functools
import itertools
import typing
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from experiments import hypospace
from experiments.compare import figure as figure
from experiments.compare import logged_weights
from experiments.compare.ranking import Result, ranked
from ipsrl import objectives, study
from ipsrl.environments import catalog as environments
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.environment import Environment
from ipsrl.environments.group_log import MOST_PROMPTS, SUFFIX, GroupLog, LoggedOutcomes
from ipsrl.environments.state_graph import StateGraph
from ipsrl.environments.text import TextTask
from ipsrl.fields import Range, accepted_by, between, in_range, non_negative, positive
from ipsrl.figures.style import Drawing
from ipsrl.measures import rewarded
from ipsrl.policies.state_table import outcome_probs_at_prompts
from ipsrl.policies.tabular import Tabular
from ipsrl.records.json_files import read_json
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.records.text_table import aligned
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.rollouts.sources.refinements import spend_samples
from ipsrl.study import catalog as study_catalog
from ipsrl.study import text_tasks
from ipsrl.study.settings import as_text
from ipsrl.study.training_runs import TrainingGrid
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings, make_batch_filters
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

Kind = Literal["log", "bandit", "graph", "text"]
# The first that fits: a log is a bandit, and that is a graph.
KINDS: dict[Kind, type] = {
    "log": LoggedOutcomes,
    "bandit": Bandit,
    "graph": StateGraph,
    "text": TextTask,
}
COLUMNS: dict[Kind, tuple[str, ...]] = {
    "log": ("survival", "tv_to_proportional"),
    "bandit": ("survival", "tv_to_proportional", "tv_to_uniform_best"),
    "graph": ("effective_best", "l1_to_proportional", "modes"),
    "text": ("recovery", "validity", "uniqueness"),
}
# What `--environment=bandit` means here: four equally good outcomes, three graded ones, five without reward.
TWELVE = "bandit(rewards=(1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0))"
PLACEBO = "placebo"
VERDICTS = study_catalog.root() / "docs" / "verdicts.json"
MAX_GRADIENT_NORM = 1.0
# Well above the rounding of a gradient that is 0, that of an arm which was not sampled: Adam would walk along it.
ADAM_EPSILON = 1e-5
# Tokens, of all seeds, up to which it takes longer to optimise a program than to run it as it is.
SHORT_RUN = 1_000_000


class Size(typing.NamedTuple):
    """The training budget of each objective."""

    seeds: tuple[int, ...]
    steps: int
    prompts_per_step: int
    group_size: int
    learning_rates: tuple[float, ...]
    evaluate_every: int


SIZES: dict[str, dict[Kind, Size]] = {
    "smoke": {
        "log": Size((0, 1), 20, MOST_PROMPTS, 8, (0.05,), 10),
        "bandit": Size((0, 1), 20, 1, 8, (0.05,), 10),
        "graph": Size((0, 1), 10, 1, 16, (0.05,), 5),
        "text": Size((0,), 2, 8, 4, (3e-4,), 2),
    },
    "demo": {
        "log": Size(tuple(range(4)), 2000, MOST_PROMPTS, 16, (0.02,), 50),
        "bandit": Size(tuple(range(8)), 4000, 1, 16, (0.01,), 100),
        "graph": Size(tuple(range(4)), 2000, 1, 64, (0.02,), 50),
        "text": Size((0,), 150, 40, 16, (3e-4,), 30),
    },
    "paper": {
        "log": Size(tuple(range(10)), 10000, MOST_PROMPTS, 16, (0.001, 0.003, 0.01), 250),
        "bandit": Size(tuple(range(20)), 20000, 1, 16, (0.001, 0.003, 0.01), 500),
        "graph": Size(tuple(range(10)), 10000, 1, 256, (0.003, 0.01, 0.03), 250),
        "text": Size(tuple(range(5)), 300, 40, 16, (1e-4, 3e-4, 1e-3), 30),
    },
}
DIFFERENT = Range(
    "be different positive numbers",
    lambda rates: len(set(rates)) == len(rates) and min(rates, default=1) > 0,
    of_whole=True,
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """What is 0 or empty is as `SIZES` says for this preset and this kind of environment.

    `objectives` may contain `all`, for every row of the catalog at its defaults. `skew` is that of the start on a
    bandit: p proportional to rank^-skew, in a random order of the arms. `filters` decide what is in a batch on a text
    task, see `ipsrl.training.settings`.
    """

    preset: Literal["smoke", "demo", "paper"]
    environment: str = accepted_by(
        lambda text: text == "bandit" or is_log(text) or environments.check(text), "bandit"
    )
    objectives: tuple[str, ...] = study.selecting(study.objectives(("all",), also=("all",)))
    seeds: tuple[int, ...] = study.seeds((), least=0)
    steps: int = non_negative(0)
    prompts_per_step: int = non_negative(0)
    group_size: int = non_negative(0)
    learning_rates: tuple[float, ...] = study.selecting(in_range(DIFFERENT, ()))
    evaluate_every: int = non_negative(0)
    epochs: int = positive(1)
    # float64 holds 1000^-100, the share of the rarest of a thousand arms.
    skew: float = between(-100, 100, 1.0)
    filters: str = accepted_by(make_batch_filters, "")

    def resolved(self) -> "Settings":
        kind = kind_of(self.environment)
        if self.filters and kind != "text":
            raise ValueError(
                f"--filters={self.filters} are for text tasks: {self.environment} is trained without"
            )
        if "off_policy" in make_batch_filters(self.filters):
            raise ValueError(
                "--filters=off_policy is not for all: objectives that need such answers get them by themselves"
            )
        sizes = SIZES[self.preset][kind]._asdict()
        settings = dataclasses.replace(
            self, **{name: getattr(self, name) or size for name, size in sizes.items()}
        )
        if settings.steps % settings.evaluate_every:
            raise ValueError(
                f"--steps is {settings.steps}, it must be a multiple of --evaluate_every, {settings.evaluate_every}"
            )
        return settings


PRESETS = {name: Settings(name) for name in SIZES}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    chosen = chosen_objectives(settings.objectives)
    left_out = refused(settings)
    if len(left_out) == len(chosen):
        raise ValueError(f"{chosen[0]}: {left_out[chosen[0]]}")
    trained = text_curves if kind_of(settings.environment) == "text" else exact_curves
    for text in chosen:
        for rate in settings.learning_rates if text not in left_out else ():
            yield from trained(text, rate, settings)


def chosen_objectives(listed: Sequence[str]) -> tuple[str, ...]:
    """The distinct objectives of a list, with `all` expanded; raises like `objectives.make_each`."""
    written_out = [objectives.names() if item == "all" else (item,) for item in listed]
    return tuple(objectives.make_each(dict.fromkeys(itertools.chain(*written_out))))


def is_log(environment: str) -> bool:
    """Whether an environment is a file of logged groups."""
    return environment.endswith(SUFFIX)


read_log = functools.cache(GroupLog.read)


@functools.cache
def environment_of(text: str) -> Environment:
    if is_log(text):
        return read_log(text).bandit()
    return environments.make(TWELVE if text == "bandit" else text)


def kind_of(environment: str) -> Kind:
    kind = next(
        (name for name, base in KINDS.items() if isinstance(environment_of(environment), base)),
        None,
    )
    if kind is None:
        raise ValueError(
            f"{environment} has no small policy: take a bandit, a tree, a grid or a text task"
        )
    return kind


@functools.cache
def refused(settings: Settings) -> dict[str, str]:
    """Objective -> why it cannot be computed here."""
    reasons = {}
    for text in chosen_objectives(settings.objectives):
        try:
            check(text, settings)
        except ValueError as error:
            reasons[text] = str(error)
    return reasons


def check(objective: str, settings: Settings) -> None:
    """Raises ValueError if an objective cannot be computed here."""
    if kind_of(settings.environment) == "text":
        text_grid(objective, settings.learning_rates[0], settings)
    else:
        trainer_of(objective, settings.learning_rates[0], settings).check()


def step_size(objective: str, learning_rate: float) -> float:
    """The learning rate of one optimiser step; several steps on the same batch share the objective's rate."""
    return learning_rate / objectives.make(objective).num_steps


def policy_of(settings: Settings) -> Tabular:
    """A table of logits. That of a log starts at the logged shares; that of a bandit at p proportional to rank^-skew,
    in a fixed random order of the arms in which rewards play no part; others start with uniform actions.
    """
    environment = environment_of(settings.environment)
    start = None
    if isinstance(environment, LoggedOutcomes):
        start = environment.logged_logits
    elif isinstance(environment, Bandit):
        rank = 1 + np.random.default_rng(0).permutation(environment.num_outcomes)
        start = tuple((-settings.skew * np.log(rank)).tolist())
    return Tabular(environment.num_observations, environment.vocabulary_size, start)


def exact_curves(objective: str, rate: float, settings: Settings) -> Iterator[study.Curve]:
    proportional = rewarded.proportional_reward(environment_of(settings.environment).reward_table())
    points = functools.partial(exact_points, objective, rate, settings, proportional)
    yield study.Curve({"objective": objective, "learning_rate": rate}, points)


def trainer_of(objective: str, rate: float, settings: Settings) -> Trainer:
    made = objectives.make(objective)
    group_size, off_policy = spend_samples(made, settings.group_size)
    training = TrainSettings(
        settings.steps,
        settings.prompts_per_step,
        group_size,
        learning_rate=step_size(objective, rate),
        max_gradient_norm=MAX_GRADIENT_NORM,
        adam_epsilon=ADAM_EPSILON,
        batching=Batching(settings.epochs),
        off_policy=off_policy,
    )
    return Trainer(environment_of(settings.environment), policy_of(settings), made, training)


def exact_points(
    objective: str, rate: float, settings: Settings, proportional: float
) -> study.Points:
    """Trains all seeds as one compiled program."""
    environment = environment_of(settings.environment)
    seeds = jnp.asarray(settings.seeds, jnp.int32)
    tokens = (
        len(seeds)
        * settings.steps
        * settings.prompts_per_step
        * settings.group_size
        * environment.max_tokens
    )
    # Most of a short run is compilation, and most of that is LLVM: 3.3 s with its optimisation, 1 s without.
    quick = tokens < SHORT_RUN and jax.default_backend() == "cpu"
    record = functools.partial(outcome_probs_at_prompts, environment, policy_of(settings))
    traced = train_ensemble.lower(
        trainer_of(objective, rate, settings), seeds, record, settings.evaluate_every
    )
    program = traced.compile({"xla_backend_optimization_level": 0} if quick else {})
    values = rewarded.measures(program(seeds), environment.reward_table())
    values["proportional_reward"] = proportional
    steps = range(0, settings.steps + 1, settings.evaluate_every)
    return study.Points(steps, values, settings.seeds)


@functools.cache
def text_task(settings: Settings) -> TrainingGrid:
    """Policy, prior and evaluation are those of `experiments.hypospace` with this preset."""
    preset = hypospace.PRESETS[settings.preset]
    fitting = [
        number
        for number in range(1, preset.micro_batches + 1)
        if settings.prompts_per_step % (number * jax.device_count()) == 0
    ]
    same = (
        "seeds",
        "steps",
        "prompts_per_step",
        "group_size",
        "epochs",
        "evaluate_every",
        "filters",
    )
    task = dataclasses.replace(
        preset,
        # It needs nothing, and stands for all others.
        objectives=("reinforce",),
        micro_batches=max(fitting, default=1),
        checkpoint_every=settings.steps,
        **{name: getattr(settings, name) for name in same},
    )
    return text_tasks.training_grid(settings.environment, task)


def text_grid(objective: str, rate: float, settings: Settings) -> TrainingGrid:
    """The training runs of one objective.

    Raises:
      ValueError: it cannot be computed here.
    """
    grid = text_task(settings)
    group_size, off_policy = settings.group_size, None
    # Modes that are replayed are off-policy answers enough.
    if grid.settings.replayed_modes is None:
        group_size, off_policy = spend_samples(objectives.make(objective), group_size)
    training = dataclasses.replace(
        grid.settings,
        learning_rate=step_size(objective, rate),
        group_size=group_size,
        off_policy=off_policy,
    )
    folder = f"learning_rate_{rate:g}"
    return dataclasses.replace(grid, objectives=(objective,), settings=training, folder=folder)


def text_curves(objective: str, rate: float, settings: Settings) -> Iterator[study.TrainingRun]:
    for run in text_grid(objective, rate, settings).curves({"learning_rate": rate}):
        yield dataclasses.replace(run, train=functools.partial(text_points, run))


def text_points(run: study.TrainingRun, output: study.Output) -> study.Points:
    """Rewards are 0 or 1: their mean over the answers of an evaluation is pass@1."""
    try:
        found = run.train(output)
    except NonFiniteLossError:
        return study.Points([0], dict.fromkeys(("reward", "effective_outcomes"), np.nan))
    values = {**found.values, "reward": found.values["pass_at_1"], "proportional_reward": 1.0}
    return dataclasses.replace(found, values=values)


def title(results: Sequence[Result], settings: Settings) -> str:
    counts = {"objective": len(results), "seed": len(settings.seeds)}
    words = [f"{count} {word}{'s' * (count > 1)}" for word, count in counts.items()]
    return f"{settings.environment}: {words[0]}, mean over {words[1]}"


def table(records: Records, settings: Settings) -> str:
    """The table, in the order of the figure."""
    results, bar = ranked(records)
    columns = ("reward", "effective_outcomes", *COLUMNS[kind_of(settings.environment)])
    several = ("learning_rate",) if len(settings.learning_rates) > 1 else ()
    cells = [["", *(column.replace("_", " ") for column in (*columns, *several))]]
    for result in results:
        rates = [f"{rate:g}" for rate in result.records.distinct("learning_rate") if several]
        cells.append([result.label, *(str(result.final(column)) for column in columns), *rates])
    head, *rows = aligned(cells).split("\n")
    compared = sum(result.rank is not None for result in results)
    diverged = set(records.distinct("objective")) - {result.name for result in results}
    left_out = refused(settings) | dict.fromkeys(diverged, "training diverged")
    sizes = " ".join(f"--{name}={as_text(settings, name)}" for name in Size._fields)
    lines = [
        f"{settings.environment}: {sizes}",
        f"{title(results, settings)} [95 % interval]; reward as a share of the best possible one, that of "
        f"reward-proportional probabilities {records.column('proportional_reward')[0]:.3g}, bar {bar:.3g}",
        head,
        *rows[:compared],
        *(["below the bar:", *rows[compared:]] if rows[compared:] else []),
        *(f"left out: {text}: {reason}" for text, reason in left_out.items()),
        *(lines_of_log(settings) if is_log(settings.environment) else ()),
    ]
    return "\n".join(lines)


def lines_of_log(settings: Settings) -> list[str]:
    """How the objectives would have weighed the logged groups, beside their published verdicts."""
    log = read_log(settings.environment)
    words = {entry["objective"]: entry["word"] for entry in read_json(VERDICTS)["verdicts"]}
    choices = len(log.with_a_choice)
    return [
        "",
        f"above, {min(choices, MOST_PROMPTS)} of {choices} prompts with a choice, from the logged shares of outcomes; "
        "below, how objectives would have weighed the logged groups (docs/comparison.md)",
        logged_weights.table(log, chosen_objectives(settings.objectives), words),
    ]


def draw(records: Records, settings: Settings) -> Drawing:
    results, bar = ranked(records)
    return figure.draw(title(results, settings), results, bar, PLACEBO)


def ends_of(measure: str, objective: str) -> study.Number:
    """A measure at the end of the runs of an objective with the learning rate that it is ranked by."""

    def ends(records: Records) -> np.ndarray:
        for result in ranked(records)[0]:
            if result.name == objective:
                return result.records.ends(measure)
        raise NotRecorded(f"{objective} was not compared")

    return study.Computed(f"{measure} of {objective}", ends)


def variant(environment: str, on: str, all_in_demo: bool = True) -> study.Variant:
    every = {"environment": environment}
    four = every | {"objectives": "grpo,placebo,ips_grpo,darling"}
    shows = f"{'every objective' if all_in_demo else 'objectives'} on {on}: effective outcomes and reward"
    demo = every if all_in_demo else four
    return study.Variant(shows, {"smoke": four, "demo": demo, "paper": every})


OUTCOMES = ends_of("effective_outcomes", "ips_grpo")
BAR = study.Computed("the bar", lambda records: ranked(records)[1])
CLAIMS = {
    "inverse probability scaling keeps more outcomes than GRPO and a placebo, at a reward above the bar": study.every(
        (
            study.above(OUTCOMES, ends_of("effective_outcomes", "grpo")),
            study.above(OUTCOMES, ends_of("effective_outcomes", PLACEBO)),
            study.above(ends_of("reward", "ips_grpo"), BAR),
        )
    )
}
TABLE = table
FIGURE = draw
VARIANTS = {
    "comparison_bandit": variant("bandit", "a bandit"),
    "comparison_hypergrid": variant("hypergrid", "the hypergrid", all_in_demo=False),
    "comparison_hypospace": variant("hypospace_boolean", "HypoSpace, Boolean", all_in_demo=False),
}
