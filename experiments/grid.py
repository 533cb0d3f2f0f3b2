"""Trains every objective with every seed, each in a folder of its own."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging
from jax.sharding import Mesh

from experiments.launch import Output, folder_name
from ipsrl import objectives as objective_catalog
from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.training import metric_log
from ipsrl.training.loop import Evaluate, TrainSettings, available_fields, train
from ipsrl.training.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class Run:
    """One finished training run.

    Attributes:
      objective: its specification.
      seed: its seed.
      records: what metrics.jsonl holds.
      parameters: the final ones.
    """

    objective: str
    seed: int
    records: list[dict[str, Any]]
    parameters: Parameters

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


def train_grid(
    output: Output,
    environment: Environment,
    policy: Policy,
    objectives: Sequence[str],
    seeds: Sequence[int],
    settings: TrainSettings,
    mesh: Mesh,
    initial_parameters: Parameters | None = None,
    evaluate: Evaluate | None = None,
    identity: dict[str, Any] | None = None,
) -> Iterator[Run]:
    """Yields the finished runs, objective by objective. All objectives are checked before the first run starts.

    Args:
      identity: what else determines a run, for its config.json (a warm start, say).
    """
    built = {text: objective_catalog.make(text) for text in objectives}
    for text, objective in built.items():
        try:
            objective.check(available_fields(environment, policy), settings.group_size)
        except ValueError as error:
            raise ValueError(f"{text}: {error}") from error
    for text, objective in built.items():
        for seed in seeds:
            config = {
                "environment": repr(environment),
                "policy": repr(policy),
                "objective": text,
                "training": dataclasses.asdict(settings),
                "seed": seed,
                **(identity or {}),
            }
            path = output.path / folder_name(text) / f"seed_{seed}"
            logging.info("training %s, seed %d, in %s", text, seed, path)
            with RunFolder.open(path, config, output.resume) as folder:
                state = train(
                    environment, policy, objective, settings, seed, folder, mesh, initial_parameters, evaluate
                )
                records = metric_log.read(folder.metrics_path)
                folder.write_summary(records[-1])
            yield Run(text, seed, records, state.parameters)
