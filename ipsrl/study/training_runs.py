"""Training runs as curves of a study: every objective with every seed, each in a folder of its own; and their flags."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from jax.sharding import Mesh

from ipsrl import objectives as objective_catalog
from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import cores
from ipsrl.environments.environment import Environment
from ipsrl.fields import at_least, non_negative, positive
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluate
from ipsrl.records.metric_log import EVALUATION
from ipsrl.records.progress_line import report_line, say_in_log
from ipsrl.records.run_folder import RunFolder, RunFolderError
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.records.warning_lines import WarningLines
from ipsrl.study.curves import Labels, Points, TrainingRun
from ipsrl.study.settings import Settings, folder_name, seeds
from ipsrl.study.study import Output
from ipsrl.training.language_model import LanguageModel
from ipsrl.training.loop import TrainSettings, check_run, train
from ipsrl.training.settings import make_batch_filters
from ipsrl.training.step import Batching
from ipsrl.training.vmapped_runs import train_vmapped


@dataclasses.dataclass(frozen=True)
class TrainingFlags(Settings):
    """`filters` decide what is in a batch, as in --filters="dynamic_sampling(rounds=10), difficulty_filter".

    `monitors` watch each run and warn, as in --monitors="all, low_entropy(below=0.3)" or --monitors=none. They and the
    other flags of training are described in `ipsrl.training.settings`.
    """

    objectives: tuple[str, ...] = ("grpo", "ips_grpo(floor=0.2)")
    seeds: tuple[int, ...] = seeds((0, 1, 2))
    steps: int = positive(300)
    prompts_per_step: int = positive(40)
    group_size: int = positive(16)
    mini_batches: int = at_least(1, 1)
    epochs: int = at_least(1, 1)
    temperature: float = positive(1.0)
    micro_batches: int = at_least(1, 5)
    learning_rate: float = positive(3e-4)
    filters: str = ""
    refresh_reference_every: int = non_negative(0)
    async_rollouts: bool = False
    monitors: str = "all"
    evaluate_every: int = positive(25)
    checkpoint_every: int = positive(100)
    mesh: str = "data:-1"

    @property
    def host_devices(self) -> int | None:
        """Into how many devices a CPU is divided by default: one for each core, as far as they divide the prompts of a
        micro-batch. None where a mesh is asked for, which says how many it wants.
        """
        if self.mesh != "data:-1":
            return None
        return math.gcd(cores(), self.prompts_per_step // (self.mini_batches * self.micro_batches))

    def train_settings(self) -> TrainSettings:
        """Raises ValueError where a rule or a monitor is unknown."""
        same = {field.name for field in dataclasses.fields(TrainSettings)} & {f.name for f in dataclasses.fields(self)}
        batching = Batching(self.epochs, self.mini_batches, self.micro_batches)
        return TrainSettings(
            batching=batching, **make_batch_filters(self.filters), **{name: getattr(self, name) for name in same}
        )


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """One finished training run.

    Attributes:
      objective: its specification.
      seed: its seed.
      records: what metrics.jsonl holds.
      path: its folder.
      parameters: the final ones.
      arrays: of these, as the grid has them.
    """

    objective: str
    seed: int
    records: list[dict[str, Any]]
    path: Path
    parameters: Parameters
    arrays: Mapping[str, np.ndarray]

    def points(self) -> Points:
        """All evaluations."""
        evaluated = [record for record in self.records if any(name.startswith(EVALUATION) for name in record)]
        names = [name for name in evaluated[0] if name.startswith(EVALUATION)]
        values = {name.removeprefix(EVALUATION): [record[name] for record in evaluated] for name in names}
        return Points([record["step"] for record in evaluated], values, arrays=self.arrays)


Runs = Callable[[Output], Iterator[FinishedRun]]
"""Trains, or continues, or reads what is finished, in an output."""


@dataclasses.dataclass(frozen=True)
class TrainingGrid:
    """Every objective with every seed on one environment; making it checks all of them before anything is written.

    Attributes:
      environment, policy, settings, mesh, evaluate: as in `ipsrl.training.loop.train`.
      objectives: specifications.
      seeds: one run for each.
      arrays: final parameters -> what figures need beside the records.

    Raises:
      ValueError: an objective is unknown, or one of the runs would be impossible.
    """

    environment: Environment
    policy: Policy
    objectives: Sequence[str]
    seeds: Sequence[int]
    settings: TrainSettings
    mesh: Mesh
    evaluate: Evaluate | None = None
    arrays: Callable[[Parameters], Mapping[str, np.ndarray]] = lambda parameters: {}

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

    @property
    def runs(self) -> list[tuple[str, int]]:
        """Objective and seed of each, in the order in which they are trained."""
        return list(itertools.product(self.objectives, self.seeds))

    def at(self, seeds: Sequence[int], learning_rate: float) -> Self:
        """The same with other seeds and another learning rate; it shares environment and policy, and programs."""
        settings = dataclasses.replace(self.settings, learning_rate=learning_rate)
        return dataclasses.replace(self, seeds=seeds, settings=settings)

    def config(self, objective: str, seed: int) -> dict[str, Any]:
        """What determines one run."""
        where = {"environment": repr(self.environment), "policy": repr(self.policy)}
        return where | {"objective": objective, "training": dataclasses.asdict(self.settings), "seed": seed}

    def train(
        self,
        output: Output,
        initial_parameters: Parameters | Callable[[], Parameters] | None = None,
        identity: dict[str, Any] | None = None,
        frozen: Parameters | None = None,
    ) -> Iterator[FinishedRun]:
        """Yields the finished runs, each with a folder of its own in `output`.

        Args:
          output: where to, whether to continue what is there, and trackers.
          initial_parameters, frozen: as in `ipsrl.training.loop.train`.
          identity: what else determines a run (a warm start, say), for its config.json.
        """
        with WarningLines(output.path) as warnings:
            for number, (text, seed) in enumerate(self.runs, start=1):
                place = f"run {number} of {len(self.runs)}: " if len(self.runs) > 1 else ""
                path, objective = run_path(output, text, seed), objective_catalog.make(text)
                with RunFolder.open(path, self.config(text, seed) | (identity or {}), output.resume) as folder:
                    state = train(
                        self.environment, self.policy, objective, self.settings, seed, folder, self.mesh,
                        initial_parameters, self.evaluate, frozen=frozen, label=f"{place}{text}, seed {seed}",
                        trackers=output.trackers, warnings=warnings,
                    )  # fmt: skip
                    records = hosts.broadcast(hosts.first_does(functools.partial(metric_log.read, folder.metrics_path)))
                    folder.write_summary(records[-1])
                say_in_log(f"trained {text}, seed {seed}: reward {records[-1]['reward']:.3g}, {path}")
                yield FinishedRun(text, seed, records, path, state.parameters, self.arrays(state.parameters))

    def train_model(
        self, model: LanguageModel, output: Output, identity: dict[str, Any], export: bool
    ) -> Iterator[FinishedRun]:
        """As `train`, of a language model, which each run may write to its folder as `model`."""
        start, frozen = model.load(self.mesh)
        for run in self.train(output, start, identity, frozen):
            if export:
                model.export(run.path / "model", run.parameters, frozen)
            yield run

    def curves(self, runs: Runs, labels: Labels, start: str = "") -> list[TrainingRun]:
        """The curves of all runs. The first that is asked for begins the training, in the order of `runs`.

        Args:
          runs: gives the finished ones in this order, as `train` does, one by one.
          labels: of all, beside `objective` and `seed`.
          start: where all runs start from the same policy, its name in the place of an objective: what the first run
            found before training is a curve of its own then, without a seed.
        """
        begin = functools.cache(lambda output: (iter(runs(output)), []))

        def find(number: int, output: Output) -> Points:
            trained, found = begin(output)
            while len(found) <= number:
                # The points, without the parameters.
                found.append(next(trained).points())
            if len(found) == len(self.runs):
                # What `train` does at its end.
                next(trained, None)
            return found[number]

        def before(output: Output) -> Points:
            first = find(0, output)
            return Points(first.steps[:1], {name: values[:1] for name, values in first.values.items()})

        trained = [
            TrainingRun({**labels, "objective": text, "seed": seed}, functools.partial(find, number))
            for number, (text, seed) in enumerate(self.runs)
        ]
        return [TrainingRun({**labels, "objective": start}, before), *trained] if start else trained


def run_path(output: Output, objective: str, seed: int) -> Path:
    """The folder of one run of a grid."""
    return output.path / folder_name(objective) / f"seed_{seed}"


def train_grids(grids: Sequence[TrainingGrid], outputs: Sequence[Output]) -> list[Runs]:
    """Trains grids that differ in their seeds and learning rates alone, all runs with an objective as one program.

    Each run has a folder of its own in the output of its grid, as `TrainingGrid.train` makes it, but without
    checkpoints: what is there of a run is made again. All have the trackers of the first output.

    Returns:
      for each grid what gives its finished runs, and raises what ended it before all of them were finished.
    """
    shared = grids[0]
    finished: list[list[FinishedRun]] = [[] for _ in grids]
    failures: list[Exception | None] = [None] * len(grids)
    for text in shared.objectives:
        with contextlib.ExitStack() as stack:
            taken = []
            for number, grid in enumerate(grids):
                for seed in grid.seeds if failures[number] is None else ():
                    path = run_path(outputs[number], text, seed)
                    try:
                        folder = RunFolder.open(path, grid.config(text, seed), outputs[number].resume)
                        taken.append((number, seed, stack.enter_context(folder)))
                    except RunFolderError as error:
                        failures[number] = error
            if not taken:
                continue
            numbers, seeds, folders = zip(*taken, strict=True)
            results = train_vmapped(
                shared.environment, shared.policy, objective_catalog.make(text),
                [grids[number].settings for number in numbers], seeds, folders, shared.evaluate, outputs[0].trackers,
            )  # fmt: skip
            for (number, seed, folder), result in zip(taken, results, strict=True):
                if isinstance(result, NonFiniteLossError):
                    failures[number] = failures[number] or result
                    continue
                records = metric_log.read(folder.metrics_path)
                folder.write_summary(records[-1])
                finished[number].append(FinishedRun(text, seed, records, folder.path, result, shared.arrays(result)))
        report_line(f"trained {text}, {len(taken)} runs together")

    def give(runs: list[FinishedRun], failure: Exception | None, output: Output) -> Iterator[FinishedRun]:
        yield from runs
        if failure is not None:
            raise failure

    return [functools.partial(give, *ended) for ended in zip(finished, failures, strict=True)]
