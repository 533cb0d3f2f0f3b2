"""Launcher `ray`: tasks on an existing Ray cluster."""

import dataclasses
import logging
import socket
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from ipsrl import extras
from ipsrl.sweeps.attempt import SECONDS_TO_END, attempt, child_command
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun


@dataclasses.dataclass(frozen=True)
class Ray(Launcher):
    """One task for each run; it starts the run's process on its node, in a folder shared by all nodes.

    A task whose node is lost moves to another and continues from the last checkpoint. Run the command on any machine
    that reaches the cluster, or submit it with this repository:

        ray job submit --address=http://HEAD:8265 --working-dir=. -- \
            python scripts/sweep.py --launcher=ray --experiment=hypospace --grid="seeds=0:5" --out=/shared/folder

    The nodes need the same Python packages, and, except with `ray job submit`, the repository at the same path.

    Attributes:
      address: of the cluster; `auto` finds the cluster of this machine.
      cpus, gpus: resources of a run on its node; its GPUs are exclusive.
      lost_nodes: number of nodes a run may lose before this sweep stops it.
    """

    address: str = "auto"
    cpus: float = 1
    gpus: float = 0
    lost_nodes: int = 3

    def __post_init__(self):
        if self.cpus < 0 or self.gpus < 0 or self.lost_nodes < 0:
            raise ValueError(
                f"cpus={self.cpus}, gpus={self.gpus}, lost_nodes={self.lost_nodes}: all must be non-negative"
            )

    def check(self, runs: Sequence[SweepRun]) -> None:
        extras.require("ray")

    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Generator[tuple[SweepRun, State]]:
        extras.require("ray")
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            host, _, port = self.address.rpartition("/")[2].rpartition(":")
            if host:
                # Ray itself would retry for minutes.
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError) as error:
            raise ValueError(f"no Ray cluster answers at {self.address!r}: start one, or give its address") from error
        tasks = {}
        try:
            if not any(self._has_room(node) for node in ray.nodes()):
                needs = f"{self.cpus:g} CPUs and {self.gpus:g} GPUs"
                print(f"warning: no node of the cluster has {needs} yet; the runs wait for one", file=sys.stderr)
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.lost_nodes)(_attempt)
            tasks = {task.remote(folder, run, restarts): run for run in runs}
            while tasks:
                (done, *_), _ = ray.wait(list(tasks))
                run = tasks.pop(done)
                try:
                    yield run, ray.get(done)
                except RayTaskError as error:
                    raise error.cause from error
                except RayError:
                    # It has lost too many nodes. The next sweep continues it.
                    yield run, "broken"
        finally:
            # Cancelled tasks end their processes; tasks that are killed leave them behind.
            for task in tasks:
                ray.cancel(task)
            if tasks:
                ray.wait(list(tasks), num_returns=len(tasks), timeout=2 * SECONDS_TO_END)
            ray.shutdown()

    def _has_room(self, node: Mapping[str, Any]) -> bool:
        """Whether a node is large enough for a run."""
        there = node["Resources"]
        return node["Alive"] and there.get("CPU", 0) >= self.cpus and there.get("GPU", 0) >= self.gpus


def _attempt(folder: SweepFolder, run: SweepRun, restarts: int) -> State:
    """Runs on the node, with its Python and its repository."""
    return attempt(folder, run, child_command(folder, run), restarts, threading.Event())
