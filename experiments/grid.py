"""Trains every objective with every seed, each in a folder of its own; the flags that say how."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh

from experiments.launch import Output, folder_name
from ipsrl import objectives as objective_catalog
from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import cores
from ipsrl.environments.environment import Environment
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.training import metric_log
from ipsrl.training.evaluation import Evaluate
from ipsrl.training.loop import TrainSettings, check_run, train
from ipsrl.training.metric_log import EVALUATION
from ipsrl.training.progress_line import say_in_log
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.settings import make_rules
from ipsrl.training.step import Batching
from ipsrl.training.warning_lines import WarningLines


@dataclasses.dataclass(frozen=True)
class TrainingFlags:
    """`rules` surround the objective, as in --rules="dynamic_sampling(rounds=10), difficulty_filter".

    `monitors` watch each run and warn, as in --monitors="all, low_entropy(below=0.3)" or --monitors=none. They and the
    other flags of training are described in `ipsrl.training.settings`.
    """

    objectives: str = "grpo,ips_grpo(floor=0.2)"
    seeds: str = "0:3"
    steps: int = 300
    prompts_per_step: int = 40
    group_size: int = 16
    mini_batches: int = 1
    epochs: int = 1
    temperature: float = 1.0
    micro_batches: int = 5
    learning_rate: float = 3e-4
    rules: str = ""
    refresh_reference_every: int = 0
    sample_ahead: bool = False
    monitors: str = "all"
    evaluate_every: int = 25
    checkpoint_every: int = 100
    mesh: str = "data:-1"

    @property
    def host_devices(self) -> int | None:
        """Into how many devices a CPU is divided by default: one for each core, as far as they divide the prompts of a
        micro-batch. None where a mesh is asked for, which says how many it wants.
        """
        if self.mesh != "data:-1":
            return None
        return math.gcd(cores(), self.prompts_per_step // max(1, self.mini_batches * self.micro_batches))

    def train_settings(self) -> TrainSettings:
        """Raises ValueError where a number or a rule is not one that can be."""
        return TrainSettings(
            steps=self.steps,
            prompts_per_step=self.prompts_per_step,
            group_size=self.group_size,
            temperature=self.temperature,
            learning_rate=self.learning_rate,
            refresh_reference_every=self.refresh_reference_every,
            sample_ahead=self.sample_ahead,
            monitors=self.monitors,
            **make_rules(self.rules),
            batching=Batching(self.epochs, self.mini_batches, self.micro_batches),
            evaluate_every=self.evaluate_every,
            checkpoint_every=self.checkpoint_every,
        )


@dataclasses.dataclass(frozen=True)
class Run:
    """One finished training run.

    Attributes:
      objective: its specification.
      seed: its seed.
      records: what metrics.jsonl holds.
      path: its folder.
      parameters: the final ones; None where they have been given up.
    """

    objective: str
    seed: int
    records: list[dict[str, Any]]
    path: Path
    parameters: Parameters | None

    def curve(self, metric: str) -> tuple[list[int], list[float]]:
        """Steps at which a metric was recorded, and its values."""
        points = [(record["step"], record[metric]) for record in self.records if metric in record]
        steps, values = zip(*points, strict=True)
        return list(steps), list(values)

    def first(self, metric: str) -> float:
        """The first recorded value of a metric; of an evaluation it is that of the start."""
        return self.curve(metric)[1][0]

    def last(self, metric: str) -> float:
        """The last recorded value of a metric."""
        return self.curve(metric)[1][-1]


def group_by_objective(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Objective -> its runs, one for each seed, in the order in which they ran."""
    grouped = {}
    for run in runs:
        grouped.setdefault(run.objective, []).append(run)
    return grouped


def final_intervals(runs: Sequence[Run]) -> dict[str, dict[str, Interval]]:
    """Objective -> measure of the evaluation -> its mean over seeds at the end of training, with a 95 % interval.

    A measure that is infinite for some seed has an infinite mean and no interval.
    """
    measures = [name for name in runs[-1].records[-1] if name.startswith(EVALUATION)]
    intervals = {}
    for objective, same in group_by_objective(runs).items():
        intervals[objective] = {}
        for measure in measures:
            values = np.array([run.last(measure) for run in same])
            intervals[objective][measure.removeprefix(EVALUATION)] = (
                mean_over_seeds(values)
                if np.isfinite(values).all()
                else Interval(float(values.mean()), np.nan, np.nan, len(values))
            )
    return intervals


def claim_lines(checks: Mapping[str, bool | None]) -> list[str]:
    """A line for each claim of a summary; None stands for a claim about intervals where there is one seed."""
    words = {True: "holds", False: "DOES NOT HOLD", None: "needs two seeds or more"}
    return [f"{words[held]}: {claim}" for claim, held in checks.items()]


@dataclasses.dataclass(frozen=True)
class TrainingGrid:
    """Every objective with every seed on one environment; making it checks all of them before anything is written.

    Attributes:
      environment, policy, settings, mesh: as in `ipsrl.training.loop.train`.
      objectives: specifications.
      seeds: one run for each.

    Raises:
      ValueError: an objective is unknown, or one of the runs would be impossible.
    """

    environment: Environment
    policy: Policy
    objectives: Sequence[str]
    seeds: Sequence[int]
    settings: TrainSettings
    mesh: Mesh

    def __post_init__(self):
        built = {}
        for text in self.objectives:
            objective = objective_catalog.make(text)
            if objective in built:
                raise ValueError(f"{text} and {built[objective]} are the same objective: name each once")
            built[objective] = text
            try:
                check_run(self.environment, self.policy, objective, self.settings, self.mesh)
            except ValueError as error:
                raise ValueError(f"{text}: {error}") from error

    def config(self, objective: str, seed: int) -> dict[str, Any]:
        """What determines one run."""
        return {
            "environment": repr(self.environment),
            "policy": repr(self.policy),
            "objective": objective,
            "training": dataclasses.asdict(self.settings),
            "seed": seed,
        }

    def train(
        self,
        output: Output,
        initial_parameters: Parameters | Callable[[], Parameters] | None = None,
        evaluate: Evaluate | None = None,
        identity: dict[str, Any] | None = None,
        frozen: Parameters | None = None,
    ) -> Iterator[Run]:
        """Yields the finished runs, objective by objective, each with a folder of its own in `output`.

        Args:
          output: where to, whether to continue what is there, and mirrors.
          initial_parameters, evaluate, frozen: as in `ipsrl.training.loop.train`.
          identity: what else determines a run (a warm start, say), for its config.json.
        """
        runs = list(itertools.product(self.objectives, self.seeds))
        with WarningLines(output.path) as warnings:
            for number, (text, seed) in enumerate(runs, start=1):
                place = f"run {number} of {len(runs)}: " if len(runs) > 1 else ""
                path = run_path(output, text, seed)
                with RunFolder.open(path, self.config(text, seed) | (identity or {}), output.resume) as folder:
                    state = train(
                        self.environment,
                        self.policy,
                        objective_catalog.make(text),
                        self.settings,
                        seed,
                        folder,
                        self.mesh,
                        initial_parameters,
                        evaluate,
                        frozen=frozen,
                        label=f"{place}{text}, seed {seed}",
                        mirrors=output.mirrors,
                        warnings=warnings,
                    )
                    records = hosts.tell_all(hosts.first_does(functools.partial(metric_log.read, folder.metrics_path)))
                    folder.write_summary(records[-1])
                reward = records[-1]["reward"]
                say_in_log(f"trained {text}, seed {seed}: reward {reward:.3g}, {path}")
                yield Run(text, seed, records, path, state.parameters)


def run_path(output: Output, objective: str, seed: int) -> Path:
    """The folder of one run of a grid."""
    return output.path / folder_name(objective) / f"seed_{seed}"
