"""Training on a hypergrid by `train_ensemble` with one seed, as experiments run many seeds: a contender.

A run is one compiled program, from the first update to the last. It pauses where it records its parameters, every few
updates, until the next request: the measured program is that of a run of any length.
"""

import functools
import os
import queue
import sys
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from benchmarks.contender import serve
from benchmarks.peers.hypergrid_task import R0, R1, R2, Task, steps
from ipsrl import objectives
from ipsrl.distributed.start_up import start_up
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.policies.mlp import MLP
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import log_probs_table
from ipsrl.rollouts.randomness import stream
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

RECORDS = 10**6
"""More steps than any benchmark uses."""


class StoppedRun:
    """A run of `train_ensemble` that is paused except during `train`.

    Attributes:
      parameters: of the policy at the pause.
    """

    def __init__(self, task: Task):
        environment = Hypergrid(task.dimensions, task.side, R0, R1, R2)
        policy = MLP(environment.features, environment.num_features, environment.vocabulary_size)
        seeds = jnp.asarray([task.seed])
        settings = TrainSettings(
            steps=RECORDS * task.updates, prompts_per_step=1, group_size=task.batch, learning_rate=task.learning_rate
        )
        trainer = Trainer(environment, policy, objectives.make(task.objective), settings)
        program = train_ensemble.lower(trainer, seeds, self._record, task.updates).compile()
        self._thread = threading.Thread(target=program, args=(seeds,), daemon=True)
        self._reached: queue.SimpleQueue[Parameters] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._log_probs = jax.jit(functools.partial(log_probs_table, policy, environment=environment))
        self.parameters = jax.tree.map(np.asarray, policy.init(stream(seeds[0], 0, "parameters")))
        self._start = jax.tree.leaves(self.parameters)

    def train(self) -> None:
        """Continues to the next record."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._asked.put(None)
        self.parameters = self._reached.get()

    def log_probs(self) -> np.ndarray:
        """`[S, V]`, of every action in every cell."""
        return np.asarray(self._log_probs(self.parameters))

    def _record(self, parameters: Parameters) -> Any:
        return io_callback(self._stop, jax.ShapeDtypeStruct((), jnp.float32), parameters)

    def _stop(self, parameters: Parameters) -> np.float32:
        # Not before the first update, where the run has not started.
        parameters = jax.tree.map(np.asarray, parameters)
        if not all(map(np.array_equal, jax.tree.leaves(parameters), self._start)):
            self._reached.put(parameters)
            self._asked.get()
        return np.float32(0)


def main() -> None:
    start_up()
    task = Task.read(sys.argv[1])
    run = StoppedRun(task)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(run.parameters))
    serve({"jax": jax.__version__, "parameters": parameters}, steps(task, run.train, run.log_probs))
    # The program stays paused: exit without waiting for its end.
    os._exit(0)


if __name__ == "__main__":
    main()
