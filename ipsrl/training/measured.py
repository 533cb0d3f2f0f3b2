"""One run on the host that is measured at given places, for measures that do not run under jit.

For measures under jit, and for many seeds at once, see `ipsrl.training.ensemble`; for logs and checkpoints
`ipsrl.training.loop`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.sources.source import Groups
from ipsrl.structures import Scalars
from ipsrl.training.step import TrainState
from ipsrl.training.trainer import Trainer


def measured(
    trainer: Trainer,
    seed: int,
    parameters: Parameters,
    measure: Callable[[Parameters, int], Any],
    places: Sequence[float],
    learning_rate: float | None = None,
    spent: Callable[[Scalars], float] = lambda metrics: 1,
) -> list[Any]:
    """Trains one run and measures its policy at each place, on the mesh of this process's first device.

    Args:
      trainer: the number of steps in its settings decides the schedule of the learning rate only.
      seed: of the run.
      parameters: the initial ones, which are the reference of a KL penalty.
      measure: parameters and the number of updates so far -> anything.
      places: in increasing order, what has been spent when the policy is measured; the run ends with the last. A policy
        that passes several places in one update is measured for each.
      learning_rate: takes the place of the one in the settings; one program for all rates.
      spent: metrics of an update -> what it adds; by default places are numbers of updates.

    Returns:
      what was measured at each place.
    """
    found, total, updates = [], 0.0, 0
    with jax.set_mesh(own_device_mesh()):
        if learning_rate is None:
            state, learn = trainer.init(seed, parameters), trainer.learn
        else:
            parameters = jax.tree.map(jnp.asarray, parameters)
            state = trainer.begin(jnp.int32(seed), jnp.float32(learning_rate), parameters, None)
            learn = functools.partial(_learned, trainer)
        while True:
            while len(found) < len(places) and places[len(found)] <= total:
                found.append(measure(state.parameters, updates))
            if len(found) == len(places):
                return found
            state, groups, of_source = trainer.ask(state)
            state, of_update = learn(state, groups)
            total, updates = total + float(spent(of_update | of_source)), updates + 1


# Outside of jit the learning rate of a state would be a part of its program.
@functools.partial(jax.jit, static_argnames="trainer")
def _learned(trainer: Trainer, state: TrainState, groups: Groups) -> tuple[TrainState, Scalars]:
    return trainer.learn(state, groups)
