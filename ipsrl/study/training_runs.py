"""Training runs as curves of a study: every objective with every seed, each in a folder of its own; and their flags."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from jax.sharding import Mesh

from ipsrl import objectives as objective_catalog
from ipsrl.checking.fields import accepted_by, at_least, between, non_negative, positive
from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import read_mesh
from ipsrl.distributed.start_up import cores
from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluate
from ipsrl.records.metric_log import EVALUATION
from ipsrl.records.monitors import make_monitors
from ipsrl.records.progress_line import report_line, say_in_log
from ipsrl.records.run_folder import RunFolder, RunFolderError
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.rollouts.sources.one_step_ahead import OneStepAhead
from ipsrl.study.curves import Labels, Output, Points, TrainingRun
from ipsrl.study.settings import Settings, folder_name, objectives, seeds, shared
from ipsrl.training.loop import TrainSettings, train, train_vmapped
from ipsrl.training.settings import make_batch_filters
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class TrainingFlags(Settings):
    """`filters` decide what is in a batch, as in --filters="dynamic_sampling(rounds=10), difficulty_filter".

    `monitors` watch each run and warn, as in --monitors="all, low_entropy(below=0.3)" or --monitors=none. They and the
    other flags of training are described in `ipsrl.training.settings`.
    """

    objectives: tuple[str, ...] = objectives(("grpo", "ips_grpo(floor=0.2)"))
    seeds: tuple[int, ...] = seeds((0, 1, 2, 3, 4))
    steps: int = positive(300)
    prompts_per_step: int = between(1, 2**31 - 1, 40)
    group_size: int = between(1, 2**31 - 1, 16)
    mini_batches: int = at_least(1, 1)
    epochs: int = at_least(1, 1)
    temperature: float = between(1e-3, 1e3, 1.0)
    micro_batches: int = at_least(1, 5)
    learning_rate: float = positive(3e-4)
    filters: str = accepted_by(make_batch_filters, "")
    refresh_reference_every: int = non_negative(0)
    async_rollouts: bool = False
    monitors: str = accepted_by(make_monitors, "all")
    evaluate_every: int = positive(25)
    checkpoint_every: int = positive(100)
    mesh: str = accepted_by(read_mesh, "data:-1")

    @property
    def host_devices(self) -> int | None:
        """The default number of CPU devices: the largest divisor of the cores that divides the prompts of a
        micro-batch. None if a mesh is given, which has its own number.
        """
        if self.mesh != "data:-1":
            return None
        return math.gcd(cores(), self.prompts_per_step // (self.mini_batches * self.micro_batches))

    def train_settings(self) -> TrainSettings:
        """Raises ValueError if a batch filter or a monitor is unknown."""
        batching = Batching(self.epochs, self.mini_batches, self.micro_batches)
        ahead = (OneStepAhead(),) if self.async_rollouts else ()
        wrappers = (*make_batch_filters(self.filters), *ahead)
        return TrainSettings(batching=batching, wrappers=wrappers, **shared(self, TrainSettings))


Train = Callable[[Output, str, int], Points]
"""(output, objective, seed) -> the evaluations of this run, which is trained, resumed or read in the output."""


@dataclasses.dataclass(frozen=True)
class TrainingGrid:
    """All objectives with all seeds on one environment; the constructor checks every run before anything is written.

    Attributes:
      environment, policy, settings, mesh, evaluate: as in `ipsrl.training.loop.train`.
      objectives: specifications.
      seeds: one run for each.
      arrays: final parameters -> arrays that figures need besides the records.
      folder: the subfolder of an output for the runs.
      identity: further settings that determine a run, such as a warm start, for its config.json.
      start: returns new `initial_parameters` and `frozen` of `ipsrl.training.loop.train` for each run.
      export: called with a path (`model` in the run's folder), final and frozen parameters, to write the trained model.

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
    folder: str = ""
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    start: Callable[[], tuple[Parameters | Callable[[], Parameters] | None, Parameters | None]] = lambda: (None, None)
    export: Callable[[Path, Parameters, Parameters | None], None] | None = None

    def __post_init__(self):
        for text, objective in objective_catalog.make_each(self.objectives).items():
            try:
                with jax.set_mesh(self.mesh):
                    Trainer(self.environment, self.policy, objective, self.settings).check()
            except ValueError as error:
                raise ValueError(f"{text}: {error}") from error

    @property
    def runs(self) -> list[tuple[str, int]]:
        """Objective and seed of each run, in the order of training."""
        return list(itertools.product(self.objectives, self.seeds))

    def at(self, seeds: Sequence[int], learning_rate: float) -> Self:
        """This grid with other seeds and another learning rate; compiled programs are shared."""
        settings = dataclasses.replace(self.settings, learning_rate=learning_rate)
        return dataclasses.replace(self, seeds=seeds, settings=settings)

    def open(self, output: Output, objective: str, seed: int) -> RunFolder:
        """Opens the folder of one run; its config.json holds all settings that determine the run."""
        config = {
            "environment": repr(self.environment),
            "policy": repr(self.policy),
            "objective": objective,
            "training": self.settings.as_config(),
            "seed": seed,
            **self.identity,
        }
        path = output.path / self.folder / folder_name(objective) / f"seed_{seed}"
        return RunFolder.open(path, config, output.resume, output.path)

    def train(self, output: Output, objective: str, seed: int) -> Points:
        """All evaluations of one run, see `Train`."""
        of_all = f"run {self.runs.index((objective, seed)) + 1} of {len(self.runs)}: " if len(self.runs) > 1 else ""
        with self.open(output, objective, seed) as folder:
            initial_parameters, frozen = self.start()
            run = self.environment, self.policy, objective_catalog.make(objective), self.settings, seed, folder
            state = train(
                *run,
                self.mesh,
                initial_parameters,
                self.evaluate,
                frozen=frozen,
                trackers=output.trackers,
                label=f"{of_all}{objective}, seed {seed}",
                warnings=output.warnings,
            )
            records = hosts.broadcast(hosts.first_does(functools.partial(metric_log.read, folder.metrics_path)))
            folder.write_summary(records[-1])
        say_in_log(f"trained {objective}, seed {seed}: reward {records[-1]['reward']:.3g}, {folder.path}")
        if self.export is not None:
            self.export(folder.path / "model", state.parameters, frozen)
        return evaluations(records, self.arrays(state.parameters))

    def curves(self, labels: Labels, start: str = "", train: Train | None = None) -> list[TrainingRun]:
        """The curves of all runs; each is trained lazily.

        Args:
          labels: of all curves, besides `objective` and `seed`.
          start: the name of the initial policy that all runs share, if they do: the first run's evaluation before
            training is then a curve with this name as its objective and without a seed.
          train: replaces `TrainingGrid.train`.
        """
        train_once = functools.cache(train or self.train)

        def train_run(objective: str, seed: int, output: Output) -> Points:
            return train_once(output, objective, seed)

        def before_training(output: Output) -> Points:
            first = train_once(output, *self.runs[0])
            return Points(first.steps[:1], {name: values[:1] for name, values in first.values.items()})

        trained = [
            TrainingRun({**labels, "objective": text, "seed": seed}, functools.partial(train_run, text, seed))
            for text, seed in self.runs
        ]
        return [TrainingRun({**labels, "objective": start}, before_training), *trained] if start else trained


def evaluations(records: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> Points:
    """All evaluations among the records of a run, with its arrays."""
    evaluated = [record for record in records if any(name.startswith(EVALUATION) for name in record)]
    names = [name for name in evaluated[0] if name.startswith(EVALUATION)]
    values = {name.removeprefix(EVALUATION): [record[name] for record in evaluated] for name in names}
    return Points([record["step"] for record in evaluated], values, arrays=arrays)


def train_grids(grids: Sequence[TrainingGrid], outputs: Sequence[Output]) -> list[Train]:
    """Trains grids that differ only in seeds and learning rates; all runs of one objective are one program.

    Returns a `Train` function for each grid, which returns finished runs and raises the error that ended the others.
    Each run has a folder in the output of its grid, as in `TrainingGrid.train`, but without checkpoints: an interrupted
    run starts again. All runs use the trackers of the first output.
    """
    shared = grids[0]
    finished: list[dict[tuple[str, int], Points]] = [{} for _ in grids]
    failures: dict[int, Exception] = {}
    for text in shared.objectives:
        with contextlib.ExitStack() as stack:
            taken = []
            for number, grid in enumerate(grids):
                for seed in grid.seeds if number not in failures else ():
                    try:
                        taken.append((number, seed, stack.enter_context(grid.open(outputs[number], text, seed))))
                    except RunFolderError as error:
                        failures[number] = error
            if not taken:
                continue
            numbers, seeds, folders = zip(*taken, strict=True)
            what = shared.environment, shared.policy, objective_catalog.make(text)
            settings = [grids[number].settings for number in numbers]
            trackers = outputs[0].trackers
            results = train_vmapped(*what, settings, seeds, folders, shared.evaluate, trackers=trackers)
            for (number, seed, folder), result in zip(taken, results, strict=True):
                if isinstance(result, NonFiniteLossError):
                    failures.setdefault(number, result)
                    continue
                records = metric_log.read(folder.metrics_path)
                folder.write_summary(records[-1])
                finished[number][text, seed] = evaluations(records, shared.arrays(result))
        report_line(f"trained {text}, {len(taken)} runs together")

    def give(number: int, output: Output, objective: str, seed: int) -> Points:
        if (found := finished[number].get((objective, seed))) is None:
            raise failures[number]
        return found

    return [functools.partial(give, number) for number in range(len(grids))]
