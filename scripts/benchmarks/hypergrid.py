"""Training on hypergrids beside gfnx and torchgfn: trajectories per second, and seconds to a total variation.

All learn an MLP of 2 x 256 on one-hot coordinates from the same sparse reward, R0 = 0.001. Steps of the contenders
alternate; after each, the distance of the policy's exact distribution to the target is computed, in the same way for
all and outside the measured time. gfnx and torchgfn learn by trajectory balance with their own settings.
"""

import argparse
import contextlib
import dataclasses
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measuring, peer_environments
from benchmarks.contender import Contender
from benchmarks.peers.hypergrid_task import Task

DISTANCES = (0.1, 0.05)

PEERS = {"gfnx": "benchmarks.peers.gfnx_hypergrid", "torchgfn": "benchmarks.peers.torchgfn_hypergrid"}
"""Peer -> its program."""

OURS = {
    "ipsrl TB": ("trajectory_balance", 1e-3),
    "ipsrl IPS": ("ips_grpo(probability=exact)", 3e-3),
}
"""Name -> objective and learning rate."""

TRAJECTORIES = 3200
"""Updates in a contender's step times the dimensions, but at least 10 updates: some tenths of a second."""


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "hypergrid", run, "time training on hypergrids beside gfnx and torchgfn", runs=5
    )
    command.add_argument("--grids", default="2x8,2x20,4x20", help="dimensions x side, by default %(default)s")
    command.add_argument("--batches", default="16,256", help="trajectories in an update, by default %(default)s")
    command.add_argument("--only", default=",".join((*OURS, *PEERS)), help="contenders, by default %(default)s")
    command.add_argument("--seconds", type=float, default=60.0, help="of training, at most; by default %(default)s")
    command.add_argument("--seed", type=int, default=0, help="by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    grids = [read_grid(text) for text in arguments.grids.split(",")]
    batches = [read_batch(text) for text in arguments.batches.split(",")]
    names = measuring.chosen("only", arguments.only, OURS | PEERS)
    if not arguments.seconds > 0:
        raise ValueError(f"--seconds is {arguments.seconds}, it must be positive")
    interpreters = {name: peer_environments.python(name) for name in names if name in PEERS}
    found = []
    for dimensions, side in grids:
        for batch in batches:
            task = Task(dimensions, side, batch, max(10, TRAJECTORIES // (batch * dimensions)), arguments.seed)
            with contextlib.ExitStack() as stack:
                contenders = [stack.enter_context(make(name, task, interpreters)) for name in names]
                curves = train(contenders, arguments.seconds, arguments.runs)
            results = [
                summarise(task, contender, curve, arguments.runs)
                for contender, curve in zip(contenders, curves, strict=True)
            ]
            print(f"n = {dimensions}, side {side}, batch {batch}", *table(results), sep="\n", flush=True)
            found += results
    return {"hypergrids": found}


def read_grid(text: str) -> tuple[int, int]:
    """Dimensions and side from a text such as 2x20.

    Raises:
      ValueError: the text is malformed, or the grid has fewer than two cells or more than a million.
    """
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise ValueError(f"--grids has {text!r}: write dimensions x side, as in 2x20")
    dimensions, side = int(match[1]), int(match[2])
    if dimensions < 1 or side < 2 or side**dimensions > 10**6:
        raise ValueError(f"--grids has {text!r}: use a grid of 2 to 1,000,000 cells with side 2 or more")
    return dimensions, side


def read_batch(text: str) -> int:
    """Reads a number of trajectories.

    Raises:
      ValueError: it is not a whole number, or below 2.
    """
    if not text.isdecimal() or int(text) < 2:
        raise ValueError(f"--batches has {text!r}: write whole numbers of 2 or more")
    return int(text)


def make(name: str, task: Task, interpreters: Mapping[str, Path]) -> Contender:
    """A contender, not started yet."""
    scripts = Path(__file__).parents[1]
    environment = {
        "PYTHONPATH": f"{scripts}:{scripts.parent}",
        "PYTHONWARNINGS": "ignore",
        # The same for all.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        # PyTorch's threads would spin while other contenders work.
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    if name in PEERS:
        return Contender(name, [str(interpreters[name]), "-m", PEERS[name], task.write()], environment)
    objective, learning_rate = OURS[name]
    task = dataclasses.replace(task, objective=objective, learning_rate=learning_rate)
    return Contender(name, [sys.executable, "-m", "benchmarks.hypergrid_run", task.write()], environment)


Curve = list[dict[str, float]]


def train(contenders: Sequence[Contender], seconds: float, runs: int) -> list[Curve]:
    """The reports of the contenders' steps, which alternate.

    Each trains until it has reached all distances, or for `seconds`, but at least for `runs` steps.
    """
    curves = [[] for _ in contenders]

    def goes_on(curve):
        reached = curve and curve[-1]["total_variation"] < min(DISTANCES)
        return len(curve) < runs or not (reached or sum(step["seconds"] for step in curve) > seconds)

    while any(map(goes_on, curves)):
        for contender, curve in zip(contenders, curves, strict=True):
            if goes_on(curve):
                curve.append(contender.step())
    return curves


@dataclasses.dataclass(frozen=True)
class Trained:
    """Results of one contender.

    Attributes:
      contender, description: its name, and its description of itself.
      task: its task.
      first_step: seconds until it was ready, compilation included.
      seconds, updates: of all training.
      total_variation: at the end.
      reached: for each of `DISTANCES`, seconds of training until the distribution was nearer after a step, None if it
        never was.
      start, end: trajectories per second in the first and the last steps, medians.
      start_length, end_length: mean number of moves of a trajectory in those steps, by the exact distribution.
      curve: report of each step.
    """

    contender: str
    description: dict[str, Any]
    task: Task
    first_step: float
    seconds: float
    updates: int
    total_variation: float
    reached: dict[str, float | None]
    start: float
    end: float
    start_length: float
    end_length: float
    curve: Curve


def summarise(task: Task, contender: Contender, curve: Curve, runs: int) -> Trained:
    """The rates of the first `runs` steps and of the last, and the time when each distance was reached."""
    passed, reached = 0.0, dict.fromkeys(map(str, DISTANCES))
    for step in curve:
        passed += step["seconds"]
        for distance in DISTANCES:
            if step["total_variation"] < distance and reached[str(distance)] is None:
                reached[str(distance)] = passed

    def rate(part):
        return task.batch * task.updates / statistics.median(step["seconds"] for step in part)

    def length(part):
        return statistics.mean(step["mean_length"] for step in part)

    return Trained(
        contender.name,
        contender.description,
        task,
        contender.first_step,
        passed,
        len(curve) * task.updates,
        curve[-1]["total_variation"],
        reached,
        rate(curve[:runs]),
        rate(curve[-runs:]),
        length(curve[:runs]),
        length(curve[-runs:]),
        curve,
    )


def table(results: Sequence[Trained]) -> list[str]:
    """Lines."""
    lines = [
        "             start: trajectories/s  moves/s  end: trajectories/s  moves/s  length"
        "  s to TV < 0.1  < 0.05  last TV  after s"
    ]
    for result in results:
        reached = ["-" if seconds is None else f"{seconds:.2f}" for seconds in result.reached.values()]
        lines.append(
            f"{result.contender:11}  {result.start:21,.0f}  {result.start * result.start_length:7,.0f}"
            f"  {result.end:19,.0f}  {result.end * result.end_length:7,.0f}  {result.end_length:6.1f}"
            f"  {reached[0]:>13}  {reached[1]:>6}  {result.total_variation:7.3f}  {result.seconds:7.1f}"
        )
    return lines
