"""Launcher `ray`: tasks on an existing Ray cluster."""

import dataclasses
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipsrl.sweeps.attempt import SECONDS_TO_END, attempt, child_command
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun


@dataclasses.dataclass(frozen=True)
class Ray(Launcher):
    """One task for each run; it starts the run's process on its node, in a folder that all nodes see.

    A task whose node is lost goes to another one and continues there from the last checkpoint. The command may be run
    on any machine that reaches the cluster, or be handed to it, with this repository:

        ray job submit --address=http://HEAD:8265 --working-dir=. -- \
            python scripts/sweep.py --launcher=ray --experiment=hypospace --grid="seeds=0:5" --out=/shared/folder

    The nodes need the same Python packages, and, but for `ray job submit`, the repository in the same place.

    Attributes:
      address: of the cluster; `auto` finds the one that this machine belongs to.
      cpus, gpus: what a run takes of its node; GPUs are given to it alone.
      lost_nodes: how many nodes a run may lose before it is given up in this sweep.
    """

    address: str = "auto"
    cpus: float = 1
    gpus: float = 0
    lost_nodes: int = 3

    def __post_init__(self):
        if self.cpus < 0 or self.gpus < 0 or self.lost_nodes < 0:
            raise ValueError(f"cpus={self.cpus}, gpus={self.gpus}, lost_nodes={self.lost_nodes}: none may be negative")

    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Iterator[tuple[SweepRun, State]]:
        try:
            import ray
        except ImportError as error:
            raise ValueError('Ray is not installed: pip install -e ".[ray]"') from error

        try:
            host, _, port = self.address.rpartition("/")[2].rpartition(":")
            if host:
                # Ray itself would try for minutes.
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(self.address, log_to_driver=False, logging_level="error")
        except (OSError, ValueError) as error:
            raise ValueError(f"no Ray cluster answers at {self.address!r}: start one, or name its address") from error
        tasks = {}
        try:
            if not any(self._has_room(node) for node in ray.nodes()):
                needs = f"{self.cpus:g} CPUs and {self.gpus:g} GPUs"
                print(f"warning: no node of the cluster has {needs} as yet; the runs wait for one", file=sys.stderr)
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.lost_nodes)(_attempt)
            tasks = {task.remote(folder, run, restarts): run for run in runs}
            while tasks:
                (done, *_), _ = ray.wait(list(tasks))
                run = tasks.pop(done)
                try:
                    yield run, ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from error
                except ray.exceptions.RayError:
                    # It has lost too many nodes. The next sweep takes it up.
                    yield run, "broken"
        finally:
            # Tasks that are told so end their processes; those that are only stopped leave them behind.
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
    """On the node, whose Python and repository are to be used."""
    return attempt(folder, run, child_command(folder, run), restarts, threading.Event())
