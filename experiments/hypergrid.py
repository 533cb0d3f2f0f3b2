"""Hypergrid: does the learned law of final cells equal the reward-proportional one?

Claim     GRPO ends on one of the 2^n equally good modes; inverse probability scaling learns p proportional to reward:
          with counts as far as a group can count, with the policy's exact probability all the way.
Paper     Table 1 of arXiv 2601.21669, mean absolute error per cell: n = 2: GRPO 0.028, FlowRL 0.028, IPS-GRPO 0.003;
          n = 4: 5.2e-4, 5.2e-4, 3.7e-4. Side and constants are read from follow-up work (our reading: side 8,
          R0 = 0.1, R1 = 0.5, R2 = 2); at n = 4 the paper's GRPO number exceeds the largest error that reading allows.
Command   python -m experiments.hypergrid
Time      demo two to three minutes on two CPU cores, smoke under one; paper, not run, hours.
Expected  n = 2, total L1 1.77 +- 0.01 (GRPO on one mode), 0.23 +- 0.05 (counts), under 0.02 (exact); per cell 0.0276,
          0.0036 and at most 0.0003. n = 4 (--dimensions=4 --steps=600 --seeds=0:2 --hidden_size=128, two minutes): per
          cell 4.9e-4, 3.3e-4 +- 0.3e-4, 2.1e-5 +- 1e-5.
Smoke     python -m experiments.hypergrid --preset=smoke
Figure    OUT/hypergrid_laws.png, .pdf and .csv (n = 2), drawn by the same command; --resume draws them again.

All distances are exact: the law of a policy is found by propagating probability over all states.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from experiments.grid import Run, TrainingGrid, claim_lines, final_intervals, group_by_objective
from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from experiments.together import take_folders, train_grids
from ipsrl import specifications
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.figures import hypergrid_laws, style
from ipsrl.measures import distances, diversity
from ipsrl.policies.mlp import MLP
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_table import log_probs_table
from ipsrl.training.evaluation import Evaluate, Evaluation
from ipsrl.training.loop import TrainSettings
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.together import require_alike


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment. `dimensions` may list several, as in 2,4.

    `monitors` watch each run and warn, see `ipsrl.training.monitors`.
    """

    dimensions: str = "2"
    side: int = 8
    base_reward: float = 0.1
    edge_reward: float = 0.5
    peak_reward: float = 2.0
    objectives: str = "grpo,ips_grpo,ips_grpo(probability=exact)"
    seeds: str = "0:3"
    steps: int = 1000
    group_size: int = 256
    learning_rate: float = 1e-3
    hidden_size: int = 64
    monitors: str = "all"
    evaluate_every: int = 50
    checkpoint_every: int = 250
    check_claims: bool = True

    def __post_init__(self):
        require_positive(self, "hidden_size")


PRESETS = {
    "smoke": Settings(
        seeds="0:2",
        steps=6,
        group_size=32,
        hidden_size=16,
        evaluate_every=3,
        checkpoint_every=3,
        check_claims=False,
    ),
    "demo": Settings(),
    "paper": Settings(dimensions="2,4", seeds="0:5", steps=4000, hidden_size=256),
}

MANY_HOSTS = MIRRORS = True

LARGEST_GRID = 1_000_000

TOGETHER = ("seeds", "learning_rate")
"""Settings in which the runs of one program may differ."""


def run(settings: Settings, output: Output) -> None:
    grids = {count: training_grid(count, settings) for count in read_numbers(settings.dimensions, int)}
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        runs, results = {}, {}
        for dimensions, grid in grids.items():
            runs[dimensions] = list(grid.train(output.inside(f"dimensions_{dimensions}"), evaluate=evaluation_of(grid)))
            results[dimensions] = summarise(grid.environment, runs[dimensions], settings.check_claims)
            print(table(f"n = {dimensions}, mean over {len(grid.seeds)} seeds", results[dimensions]))
        png = write(grids, runs, results, folder)
        if png is not None:
            print(f"figure: {png}")


def run_together(settings: Sequence[Settings], outputs: Sequence[Output]) -> list[Exception | None]:
    """Does what `run` does for each of many settings, which differ in `TOGETHER` alone; prints no tables.

    All runs with an objective are trained as one program over all devices. They leave no checkpoints, and begin again
    where they were stopped.

    Returns:
      for each, why its folder cannot be used, or the step at which one of its runs left the real numbers; None where
      all is written.
    """
    require_alike(settings, TOGETHER)
    grids = {count: training_grid(count, settings[0]) for count in read_numbers(settings[0].dimensions, int)}
    with take_folders([dataclasses.asdict(each) for each in settings], outputs) as (folders, failures):
        runs = {number: {} for number in folders}
        for dimensions, grid in grids.items():
            if not (going_on := [number for number in folders if failures[number] is None]):
                break
            trained, ended = train_grids(
                [of_settings(grid, settings[number]) for number in going_on],
                [outputs[number].inside(f"dimensions_{dimensions}") for number in going_on],
                evaluation_of(grid),
            )
            for number, finished, failure in zip(going_on, trained, ended, strict=True):
                runs[number][dimensions], failures[number] = finished, failure
        for number, folder in folders.items():
            if failures[number] is None:
                results = {
                    dimensions: summarise(grid.environment, runs[number][dimensions], settings[number].check_claims)
                    for dimensions, grid in grids.items()
                }
                write(grids, runs[number], results, folder)
    return failures


def write(
    grids: Mapping[int, TrainingGrid], runs: Mapping[int, Sequence[Run]], results: Mapping[int, dict], folder: RunFolder
) -> Path | None:
    """Writes what came out for each number of dimensions, and returns the path of the figure; n = 2 alone has one."""
    png = None
    if 2 in runs:
        laws = learned_laws(grids[2], runs[2])
        png = style.save(hypergrid_laws.draw(*laws), folder.path / "hypergrid_laws", hypergrid_laws.data(*laws))
    folder.write_summary({"results": {f"n = {dimensions}": result for dimensions, result in results.items()}})
    return png


def evaluation_of(grid: TrainingGrid) -> Evaluate:
    """What the training loop calls."""
    return functools.partial(evaluate, grid.environment, grid.policy)


def of_settings(grid: TrainingGrid, settings: Settings) -> TrainingGrid:
    """A grid with the seeds and the learning rate of some settings; it shares environment and policy, and programs."""
    return dataclasses.replace(
        grid,
        seeds=read_seeds(settings.seeds),
        settings=dataclasses.replace(grid.settings, learning_rate=settings.learning_rate),
    )


def training_grid(dimensions: int, settings: Settings) -> TrainingGrid:
    """The runs on a grid of some dimension."""
    environment = Hypergrid(dimensions, settings.side, settings.base_reward, settings.edge_reward, settings.peak_reward)
    if environment.num_outcomes > LARGEST_GRID:
        raise ValueError(
            f"{settings.side}^{dimensions} cells are too many for exact laws: take {LARGEST_GRID:,} at most"
        )
    hidden = (settings.hidden_size, settings.hidden_size)
    return TrainingGrid(
        environment,
        MLP(environment.features, environment.num_features, environment.vocabulary_size, hidden),
        specifications.split(settings.objectives),
        read_seeds(settings.seeds),
        TrainSettings(
            steps=settings.steps,
            prompts_per_step=1,
            group_size=settings.group_size,
            learning_rate=settings.learning_rate,
            monitors=settings.monitors,
            evaluate_every=settings.evaluate_every,
            checkpoint_every=settings.checkpoint_every,
        ),
        # One prompt cannot be sharded.
        make_mesh("replica:-1"),
    )


def learned_laws(grid: TrainingGrid, runs: Sequence[Run]) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The laws that the first seed of each objective has learned, the target, and which cells are modes."""
    shape = (grid.environment.side, grid.environment.side)
    first_seed = {name: same[0] for name, same in group_by_objective(runs).items()}
    laws = {
        name: np.asarray(exact_law(grid.environment, grid.policy, run.parameters)).reshape(shape)
        for name, run in first_seed.items()
    }
    return laws, target_law(grid.environment).reshape(shape), grid.environment.modes().reshape(shape)


@functools.partial(jax.jit, static_argnums=(0, 1))
def exact_law(environment: Hypergrid, policy: Policy, parameters: Parameters) -> jax.Array:
    """The probability of every final cell."""
    return environment.terminal_distribution(log_probs_table(policy, parameters, environment))


@functools.cache
def target_law(environment: Hypergrid) -> np.ndarray:
    """The reward-proportional law of final cells."""
    return environment.outcome_space(0).target


def evaluate(environment: Hypergrid, policy: Policy, step: int, parameters: Parameters) -> Evaluation:
    """Distances of the policy's law to the reward-proportional one, and how much of the grid it covers."""
    law = exact_law(environment, policy, parameters)
    target = target_law(environment)
    measured = {
        "l1_total": distances.total_l1(law, target),
        "l1_per_cell": distances.mean_l1(law, target),
        "total_variation": distances.total_variation(law, target),
        "forward_kl": distances.forward_kl(law, target),
        "reverse_kl": distances.reverse_kl(law, target),
        "jensen_shannon": distances.jensen_shannon(law, target),
        # A mode is found where it has half of the probability that it should have.
        "modes_found": distances.modes_found(law, environment.modes(), target / 2),
        # A cell is visited where 10,000 trajectories are expected to end in it once.
        "cells_visited": diversity.distinct_outcomes_of_law(law, 1e-4),
        "effective_cells": diversity.effective_outcomes_of_law(law),
        "largest_cell": diversity.largest_share_of_law(law),
    }
    return Evaluation({name: float(value) for name, value in measured.items()}, np.sort(law)[::-1])


def summarise(environment: Hypergrid, runs: Sequence[Run], check_claims: bool) -> dict:
    """Means over seeds with 95 % intervals at the end of training, and whether the claims on side 8, n = 2 hold.

    They are about intervals: with one seed it is None.
    """
    rows = final_intervals(runs)
    expected = {
        "grpo": ("ends on one mode: L1 above 1.7", lambda row: row["l1_total"].low > 1.7),
        "ips_grpo": (
            "visits every cell, finds every mode, L1 below 0.30",
            lambda row: (
                row["l1_total"].high < 0.30
                and row["cells_visited"].low == environment.num_outcomes
                and row["modes_found"].low == environment.modes().sum()
            ),
        ),
        "ips_grpo(probability=exact)": ("L1 below 0.10", lambda row: row["l1_total"].high < 0.10),
    }
    checks = {}
    if check_claims and (environment.dimensions, environment.side) == (2, 8):
        checks = {
            f"{name} {claim}": bool(test(rows[name])) if rows[name]["l1_total"].seeds > 1 else None
            for name, (claim, test) in expected.items()
            if name in rows
        }
    return {"objectives": rows, "checks": checks}


def table(title: str, result: dict) -> str:
    """The results as text, one row for each objective."""
    columns = ("l1_total", "l1_per_cell", "jensen_shannon", "modes_found", "cells_visited", "effective_cells")
    lines = [
        title,
        "  ".join(["".ljust(30), *(column.replace("_", " ").ljust(15) for column in columns)]).rstrip(),
    ]
    for objective, row in result["objectives"].items():
        cells = (f"{row[column].mean:.3g}".ljust(15) for column in columns)
        lines.append("  ".join([objective.ljust(30), *cells]).rstrip())
    return "\n".join([*lines, *claim_lines(result["checks"])]) + "\n"


if __name__ == "__main__":
    launch("hypergrid", PRESETS, run, many_hosts=MANY_HOSTS, mirrors=MIRRORS)
