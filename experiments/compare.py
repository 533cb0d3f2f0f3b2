"""Every objective on one environment: which outcomes does each leave, at a reward of at least a common bar?

Claim     Of no one paper, on equal terms: rules that pay for rarity keep more outcomes at a reward of at least the bar
          than the expected return does, and than a placebo, which is GRPO with random weights of the same variance.
Paper     arXiv 2601.21669 and the papers of docs/objectives.md.
Command   python -m experiments.compare --environment=bandit --out=OUT
          or =hypergrid, =hypospace_boolean, or any other, as in --environment="hypergrid(dimensions=4)"; each wants an
          OUT of its own
Time      for 58 objectives on two CPU cores, most of it compilation, which a second run of the same command does not
          need. bandit and hypergrid: demo two to four minutes, smoke one and a half; hypospace_boolean: smoke five; its
          demo, run with five of them in three minutes, an estimated half hour; paper, not run, hours.
Expected  effective outcomes at the end and reward as a share of the best possible one, +- 0.3 and 0.01. bandit:
          trajectory_balance 6.2 at 0.90, ips_grpo 5.7 at 0.93, darling 4.1 at 1.00, placebo 1.6 at 1.00 (interval 1.3
          to 1.9), grpo 1.2 at 1.00. hypergrid: trajectory_balance 27.7 at 0.55, ips_grpo 11.9 at 0.71, darling 4.1 at
          1.00, placebo 1.1 and grpo 1.0 at 1.00. hypospace_boolean (one seed, all at 0.99 or more): ips_grpo 4.1,
          darling 4.0, grpo 1.6.
Smoke     python -m experiments.compare --preset=smoke
Figure    OUT/comparison.png, .pdf and .csv, drawn by the same command; --resume trains only what is not there yet, so
          that objectives may be added to --objectives one by one.
Sizes     seeds, steps, prompts a step, samples a prompt, learning rates, steps between measurements; any flag that is
          given takes the place of the number here, and a run prints what it uses.
                    bandit                              other exact laws                  text
          smoke     2, 20, 1, 8, 0.05, 10               2, 10, 1, 16, 0.05, 5             1, 2, 8, 4, 3e-4, 2
          demo      8, 4000, 1, 16, 0.01, 100           4, 2000, 1, 64, 0.02, 50          1, 150, 40, 16, 3e-4, 30
          paper     20, 20000, 1, 16, 3 rates, 500      10, 10000, 1, 256, 3 rates, 250   5, 300, 40, 16, 3 rates, 30

Equal terms: the same start, samples, optimiser and grid of learning rates for all, one by default. The optimiser is
Adam, under which the scale of an objective plays no part while its gradients are far above epsilon, which is 1e-5 here:
with the usual 1e-8 the rounding of gradients that should be 0 becomes steps. An objective that makes several steps of
one batch (`ar_lopti`) makes them at its share of the learning rate. `dapo` runs without its dynamic sampling, and DEPO
is no objective but a rule: --rules=dynamic_sampling or =difficulty_filter is for all objectives alike, on text tasks.

Rewards are shares of the best possible one. Objectives are sorted by the effective outcomes at the end, among those
whose final reward is at least the bar: `reward_share` of what the reward-proportional law earns, if the best possible
reward were that of the best objective here, so that there is room for laws that trade reward for outcomes, as far as
the reward-proportional one does; and no less than a tenth of the way from the start to the best possible reward,
several times the interval of a reward at demo size, so that no policy passes that has hardly learned. What stays below
has outcomes because it has learned little: it comes last, in grey, without a rank. Those whose outcomes and interval
agree in the digits that are printed share a rank. Of several learning rates, an objective has the one with the most
effective outcomes among those that reach the bar, and where none does the one of the highest reward; the bar is made of
the highest rewards. Objectives that the environment cannot give what they need are listed with the reason.

What equal terms hide: rules that act on a policy that has moved on, such as all clips, are GRPO itself as long as each
batch is used for one optimiser step (--epochs=4 tells them apart); and rules that know only right and wrong take every
positive reward for right, so that on the hypergrid, where every cell has one, they learn nothing.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import numpy as np
from matplotlib.figure import Figure

from experiments import hypospace, text_tasks
from experiments.arenas import Arena, Curves, ExactArena, TextArena
from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from ipsrl import objectives, specifications
from ipsrl.environments import catalog as environments
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.state_graph import StateGraph
from ipsrl.environments.text import TextTask
from ipsrl.figures import comparison as figure
from ipsrl.figures import style
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.run_log import NonFiniteLossError
from ipsrl.training.settings import make_rules
from ipsrl.training.warm_start import WarmStart

# What `--environment=bandit` means here: four equally good outcomes, three graded ones, five without reward.
TWELVE = "bandit(rewards=(1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0))"
PLACEBO = "placebo"
# The share of the way from the start's reward to the best possible one that counts as having learned.
LEARNED = 0.1


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment.

    What is 0 or empty is as `SIZES` says for this preset and this kind of environment. `objectives` may contain `all`,
    for every row of the catalog at its defaults. `skew` is that of the start on a bandit: p proportional to rank^-skew,
    in a random order of the arms. `rules` surround the objectives on a text task, see `ipsrl.training.settings`.
    """

    preset: Literal["smoke", "demo", "paper"]
    environment: str = "bandit"
    objectives: str = "all"
    seeds: str = ""
    steps: int = 0
    prompts_per_step: int = 0
    group_size: int = 0
    learning_rates: str = ""
    evaluate_every: int = 0
    epochs: int = 1
    reward_share: float = 0.9
    skew: float = 1.0
    rules: str = ""

    def __post_init__(self):
        require_positive(self, "epochs", "reward_share")


@dataclasses.dataclass(frozen=True)
class Size:
    """How much each objective is trained."""

    seeds: str
    steps: int
    prompts_per_step: int
    group_size: int
    learning_rates: str
    evaluate_every: int


SIZES = {
    "smoke": {
        "bandit": Size("0:2", 20, 1, 8, "0.05", 10),
        "graph": Size("0:2", 10, 1, 16, "0.05", 5),
        "text": Size("0:1", 2, 8, 4, "3e-4", 2),
    },
    "demo": {
        "bandit": Size("0:8", 4000, 1, 16, "0.01", 100),
        "graph": Size("0:4", 2000, 1, 64, "0.02", 50),
        "text": Size("0:1", 150, 40, 16, "3e-4", 30),
    },
    "paper": {
        "bandit": Size("0:20", 20000, 1, 16, "0.001,0.003,0.01", 500),
        "graph": Size("0:10", 10000, 1, 256, "0.003,0.01,0.03", 250),
        "text": Size("0:5", 300, 40, 16, "1e-4,3e-4,1e-3", 30),
    },
}
PRESETS = {name: Settings(name) for name in SIZES}

COLUMNS = {
    "bandit": ("survival", "tv_to_proportional", "tv_to_uniform_best"),
    "graph": ("effective_best", "l1_to_proportional", "modes"),
    "text": ("recovery", "validity", "uniqueness"),
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One objective in the comparison.

    Attributes:
      curves: at the learning rate that it is compared at.
      rewards: learning rate -> mean final reward, of the learning rates at which training stayed finite.
      rank: by effective outcomes at the end; None where the final reward stays below the bar.
    """

    curves: Curves
    rewards: dict[float, float]
    rank: int | None

    def final(self, measure: str) -> Interval:
        """Mean over seeds at the end, with a 95 % bootstrap interval."""
        return mean_over_seeds(self.curves.measures[measure][:, -1])


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What came out.

    Attributes:
      title: environment and seeds.
      columns: measures that the table shows.
      arena: where it was.
      entries: objective -> entry, in the order of the figure.
      bar: the share of the best possible reward that had to be reached.
      left_out: objective -> why it was not trained.
    """

    title: str
    columns: tuple[str, ...]
    arena: Arena
    entries: dict[str, Entry]
    bar: float
    left_out: dict[str, str]

    def summary(self) -> dict:
        """For summary.json."""
        return {
            "reward_of_the_proportional_law": self.arena.proportional_reward,
            "bar": self.bar,
            "objectives": {
                text: {
                    "rank": entry.rank,
                    "learning_rate": entry.curves.learning_rate,
                    "final_reward_by_learning_rate": {f"{rate:g}": reward for rate, reward in entry.rewards.items()},
                    **{measure: entry.final(measure) for measure in entry.curves.measures},
                }
                for text, entry in self.entries.items()
            },
            "left_out": self.left_out,
        }

    def table(self) -> str:
        """The results as text, in the order of the figure."""
        labels = {text: f"{entry.rank}. {text}" if entry.rank else text for text, entry in self.entries.items()}
        width = max(map(len, labels.values()))
        several = any(len(entry.rewards) > 1 for entry in self.entries.values())
        rows = {True: [], False: []}
        for text, entry in self.entries.items():
            cells = [str(entry.final(column)).ljust(19) for column in self.columns]
            rate = [f"learning rate {entry.curves.learning_rate:g}"] if several else []
            rows[entry.rank is not None].append("  ".join([labels[text].ljust(width), *cells, *rate]).rstrip())
        lines = [
            f"{self.title} [95 % bootstrap interval]; reward as a share of the best possible one, that of the "
            f"reward-proportional law {self.arena.proportional_reward:.3g}, bar {self.bar:.3g}",
            "  ".join([" " * width, *(column.replace("_", " ").ljust(19) for column in self.columns)]).rstrip(),
            *rows[True],
            *(["below the bar:", *rows[False]] if rows[False] else []),
            *(f"left out: {text}: {reason}" for text, reason in self.left_out.items()),
        ]
        return "\n".join(lines)

    def draw(self) -> Figure:
        """Effective outcomes and reward at the end, sorted."""
        placebo = self.entries[PLACEBO].final("effective_outcomes").mean if PLACEBO in self.entries else None
        return figure.draw(self.title, self.panels(), self.bar, placebo)

    def panels(self) -> list[figure.Result]:
        """What is drawn of each objective."""
        return [
            figure.Result(
                text,
                entry.curves.updates,
                entry.curves.measures["effective_outcomes"],
                entry.curves.measures["reward"],
                entry.rank,
            )
            for text, entry in self.entries.items()
        ]


def run(settings: Settings, output: Output) -> None:
    chosen = chosen_objectives(settings.objectives)
    kind, settings, arena = make_arena(settings)
    refused = {text: reason for text in chosen if (reason := arena.refusal(text))}
    if len(refused) == len(chosen):
        raise ValueError(f"{chosen[0]}: {refused[chosen[0]]}")
    # Each run has a folder and an identity of its own: what is compared, and how, may change.
    config = {k: v for k, v in dataclasses.asdict(settings).items() if k not in ("objectives", "reward_share")}
    with RunFolder.open(output.path, config, output.resume) as folder:
        sizes = " ".join(f"--{field.name}={getattr(settings, field.name)}" for field in dataclasses.fields(Size))
        print(f"{settings.environment}: {sizes}", flush=True)
        learning_rates = read_numbers(settings.learning_rates)
        trained = {text: train(arena, text, learning_rates, output) for text in chosen if text not in refused}
        entries, bar = ranked(arena, trained, settings.reward_share)
        diverged = {text: "training left the real numbers" for text in trained if text not in entries}
        seeds = next(iter(entries.values())).final("reward").seeds
        comparison = Comparison(
            title=f"{settings.environment}: {len(entries)} objective{'s' * (len(entries) > 1)}, "
            f"mean over {seeds} seed{'s' * (seeds > 1)}",
            columns=("reward", "effective_outcomes", *COLUMNS[kind]),
            arena=arena,
            entries=entries,
            bar=bar,
            left_out=refused | diverged,
        )
        print(comparison.table())
        png = style.save(comparison.draw(), folder.path / "comparison", figure.data(comparison.panels()))
        folder.write_summary(comparison.summary())
        print(f"figure: {png}")


def chosen_objectives(text: str) -> tuple[str, ...]:
    """The objectives of a list, each once, `all` written out.

    Raises:
      ValueError: one is unknown, or two are the same one in other words.
    """
    listed = [objectives.names() if item == "all" else (item,) for item in specifications.split(text)]
    chosen = tuple(dict.fromkeys(item for items in listed for item in items))
    built = {}
    for item in chosen:
        same = built.setdefault(objectives.make(item), item)
        if same != item:
            raise ValueError(f"{item} and {same} are the same objective: name each once")
    return chosen


def make_arena(settings: Settings) -> tuple[str, Settings, Arena]:
    """The kind of the environment, the settings with all sizes filled in, and where the runs take place."""
    environment = environments.make(TWELVE if settings.environment == "bandit" else settings.environment)
    kinds = {"bandit": Bandit, "graph": StateGraph, "text": TextTask}
    kind = next((name for name, base in kinds.items() if isinstance(environment, base)), None)
    if kind is None:
        raise ValueError(f"{settings.environment} has no small policy: take a bandit, a tree, a grid or a text task")
    sizes = dataclasses.asdict(SIZES[settings.preset][kind])
    settings = dataclasses.replace(settings, **{name: getattr(settings, name) or sizes[name] for name in sizes})
    require_positive(settings, "steps", "prompts_per_step", "group_size", "evaluate_every")
    rates = read_numbers(settings.learning_rates)
    if min(rates) <= 0 or len(set(rates)) < len(rates):
        raise ValueError(f"--learning_rates={settings.learning_rates} must be different positive numbers")
    if settings.steps % settings.evaluate_every:
        raise ValueError(
            f"--steps is {settings.steps}, it must be a multiple of --evaluate_every, {settings.evaluate_every}"
        )
    make = text_arena if kind == "text" else exact_arena
    return kind, settings, make(environment, settings)


def exact_arena(environment: StateGraph, settings: Settings) -> ExactArena:
    """A bandit, tree or grid, all seeds in one program."""
    if settings.rules:
        raise ValueError(f"--rules={settings.rules} are for text tasks: {settings.environment} is trained without")
    return ExactArena(
        environment,
        seeds=read_seeds(settings.seeds),
        steps=settings.steps,
        prompts_per_step=settings.prompts_per_step,
        group_size=settings.group_size,
        evaluate_every=settings.evaluate_every,
        epochs=settings.epochs,
        skew=settings.skew,
    )


def text_arena(environment: TextTask, settings: Settings) -> TextArena:
    """A text task, with the policy, the prior and the evaluation that `experiments.hypospace` has in this preset."""
    if "off_policy" in make_rules(settings.rules):
        raise ValueError("--rules=off_policy is not for all: objectives that need such answers get them by themselves")
    preset = hypospace.PRESETS[settings.preset]
    fitting = [
        n for n in range(1, preset.micro_batches + 1) if settings.prompts_per_step % (n * jax.device_count()) == 0
    ]
    resolved = dataclasses.replace(
        preset,
        # Any objective that needs nothing will do here: the arena trains others.
        objectives="reinforce",
        seeds=settings.seeds,
        steps=settings.steps,
        prompts_per_step=settings.prompts_per_step,
        group_size=settings.group_size,
        micro_batches=max(fitting, default=1),
        epochs=settings.epochs,
        evaluate_every=settings.evaluate_every,
        checkpoint_every=settings.steps,
        rules=settings.rules,
    )
    return TextArena(
        text_tasks.training_grid(settings.environment, resolved),
        WarmStart(admissible_share=resolved.prior_share, steps=resolved.prior_steps, seed=resolved.prior_seed),
        resolved.answers,
    )


def train(arena: Arena, objective: str, learning_rates: Sequence[float], output: Output) -> list[Curves]:
    """The runs of one objective, for each learning rate at which they stay among the real numbers."""
    found = []
    for rate in learning_rates:
        # A loss that is not finite ends a run in the loop; one program for all seeds just goes on.
        with contextlib.suppress(NonFiniteLossError):
            curves = arena.train(objective, rate, output.inside(f"learning_rate_{rate:g}"))
            if all(np.isfinite(values).all() for values in curves.measures.values()):
                found.append(curves)
    return found


def ranked(
    arena: Arena, trained: Mapping[str, Sequence[Curves]], reward_share: float
) -> tuple[dict[str, Entry], float]:
    """Objectives with their ranks in the order of the figure, and the reward that had to be reached.

    Raises:
      ValueError: there are no curves at all.
    """
    highest = {text: max(curves, key=lambda c: c.final_reward) for text, curves in trained.items() if curves}
    if not highest:
        raise ValueError("every run left the real numbers: take smaller --learning_rates")
    best, start = max(highest.values(), key=lambda c: c.final_reward), next(iter(highest.values())).start_reward
    bar = max(reward_share * arena.proportional_reward * best.final_reward, start + LEARNED * (1 - start))
    compared, outcomes = {}, {}
    for text, fallback in highest.items():
        reaching = [curves for curves in trained[text] if curves.final_reward >= bar]
        compared[text] = max(reaching, key=lambda c: c.measures["effective_outcomes"][:, -1].mean(), default=fallback)
        outcomes[text] = mean_over_seeds(compared[text].measures["effective_outcomes"][:, -1])

    def order(text: str) -> tuple[bool, float, str]:
        return compared[text].final_reward < bar, -round(outcomes[text].mean, 2), str(outcomes[text])

    entries, first = {}, {}
    for position, text in enumerate(sorted(compared, key=order), start=1):
        # Equal in print is equal in rank.
        rank = first.setdefault(str(outcomes[text]), position) if compared[text].final_reward >= bar else None
        rewards = {curves.learning_rate: curves.final_reward for curves in trained[text]}
        entries[text] = Entry(compared[text], rewards, rank)
    return entries, bar


if __name__ == "__main__":
    launch("compare", PRESETS, run)
