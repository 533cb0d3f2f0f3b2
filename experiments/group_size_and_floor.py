"""Group size and probability floor of IPS-GRPO: when does the floor act, and what does it cost?

Claim     The floor acts only above 1/G, so that cells of one row with floor <= 1/G are the same run.
Paper     Table 4 of arXiv 2601.21669 (causal task, recovery in %, one number a cell): between 17.63 (G = 4) and 43.91
          (G = 16, floor 0.2), not monotone in G; equal entries exactly where the floor is at most 1/G.
Command   python -m experiments.group_size_and_floor
Time      demo ten minutes on two busy CPU cores, smoke under one; paper, not run, an estimated two hours.
Expected  recovery +- 0.05 (one seed): 0.48 at G = 4, 0.54 at G = 32 with floor 0.01, 0.46 at G = 64 with floor 0.2: a
          floor that acts costs recovery here. All cells with floor <= 1/G of a row exactly equal.
Smoke     python -m experiments.group_size_and_floor --preset=smoke
Figure    OUT/group_size_and_floor.png, .pdf and .csv, drawn by the same command; --resume draws them again.

Every cell samples the same number of answers in each update: `answers_per_step` / G prompts, in up to `micro_batches`
pieces.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from experiments import text_tasks
from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from ipsrl import specifications
from ipsrl.figures import group_size_and_floor as figure
from ipsrl.figures import style
from ipsrl.measures.seeds import mean_over_seeds
from ipsrl.training.metric_log import EVALUATION
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.warm_start import WarmStart, prior_parameters


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment: `objectives` is the one objective that gets a floor; the rest is as in
    `experiments.text_tasks`."""

    task: str = "hypospace_causal(nodes=4, perturbations=2)"
    objectives: str = "ips_grpo"
    group_sizes: str = "4,8,16,32,64"
    floors: str = "0.01,0.1,0.2"
    seeds: str = "0:1"
    steps: int = 150
    answers_per_step: int = 640
    micro_batches: int = 5
    learning_rate: float = 3e-4
    hidden_size: int = 64
    num_layers: int = 2
    prior_share: float = 0.6
    prior_steps: int = 1000
    answers: int = 64

    def __post_init__(self):
        require_positive(self, "answers", "micro_batches")
        sizes = read_numbers(self.group_sizes, int)
        if min(sizes) < 1 or len(set(sizes)) != len(sizes):
            raise ValueError(f"--group_sizes={self.group_sizes} must be different positive numbers")


PRESETS = {
    "smoke": Settings(
        task="hypospace_causal(nodes=3, perturbations=1)",
        group_sizes="4,8",
        floors="0.1,0.2",
        steps=2,
        answers_per_step=32,
        hidden_size=16,
        num_layers=1,
        prior_steps=20,
        answers=16,
    ),
    "demo": Settings(),
    "paper": Settings(seeds="0:5", steps=300),
}

MANY_HOSTS = MIRRORS = True


def run(settings: Settings, output: Output) -> None:
    group_sizes = read_numbers(settings.group_sizes, int)
    floors, seeds = read_numbers(settings.floors), read_seeds(settings.seeds)
    grids = [text_tasks.training_grid(settings.task, row_settings(settings, size, floors)) for size in group_sizes]
    warm_start = WarmStart(admissible_share=settings.prior_share, steps=settings.prior_steps)

    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        prior = prior_parameters(grids[0].environment, grids[0].policy, warm_start)
        recovery = np.zeros((len(group_sizes), len(floors), len(seeds)))
        for row, (size, grid) in enumerate(zip(group_sizes, grids, strict=True)):
            runs = grid.train(
                output.inside(f"group_size_{size}"),
                prior,
                functools.partial(text_tasks.evaluate, grid, settings.answers, "independent"),
                identity={"warm_start": dataclasses.asdict(warm_start)},
            )
            recovery[row].flat = [finished.last(EVALUATION + "recovery") for finished in runs]
        agree = inert_floors_agree(group_sizes, floors, recovery)
        print("recovery".ljust(10) + "".join(f"floor {floor:g}".ljust(22) for floor in floors).rstrip())
        for size, cells in zip(group_sizes, recovery, strict=True):
            print((f"G = {size}".ljust(10) + "".join(str(mean_over_seeds(cell)).ljust(22) for cell in cells)).rstrip())
        print(f"{'holds' if agree else 'DOES NOT HOLD'}: floors up to 1/G give the same run")
        cells = group_sizes, floors, recovery
        png = style.save(figure.draw(*cells), folder.path / "group_size_and_floor", figure.data(*cells))
        folder.write_summary(
            {
                "group_sizes": group_sizes,
                "floors": floors,
                "recovery": recovery.tolist(),
                "floors_up_to_1_over_G_agree": agree,
            }
        )
        print(f"figure: {png}")


def row_settings(settings: Settings, group_size: int, floors: Sequence[float]) -> text_tasks.Settings:
    """One row of the table, all floors and seeds at one group size, as runs of `experiments.text_tasks`."""
    if settings.answers_per_step % group_size:
        raise ValueError(f"answers_per_step is {settings.answers_per_step}, no multiple of the group size {group_size}")
    prompts = settings.answers_per_step // group_size
    return text_tasks.Settings(
        objectives=",".join(specifications.with_argument(settings.objectives, "floor", floor) for floor in floors),
        seeds=settings.seeds,
        steps=settings.steps,
        prompts_per_step=prompts,
        group_size=group_size,
        micro_batches=math.gcd(prompts, settings.micro_batches),
        learning_rate=settings.learning_rate,
        hidden_size=settings.hidden_size,
        num_layers=settings.num_layers,
        evaluate_every=settings.steps,
        checkpoint_every=settings.steps,
    )


def inert_floors_agree(group_sizes: tuple[int, ...], floors: tuple[float, ...], recovery: np.ndarray) -> bool:
    """Whether all cells of a row with floor <= 1/G hold exactly the same numbers."""
    rows = [
        [recovery[row, column] for column, floor in enumerate(floors) if floor <= 1 / size]
        for row, size in enumerate(group_sizes)
    ]
    return all(np.array_equal(first, second) for cells in rows for first, second in itertools.pairwise(cells))


if __name__ == "__main__":
    launch("group_size_and_floor", PRESETS, run, many_hosts=MANY_HOSTS, mirrors=MIRRORS)
