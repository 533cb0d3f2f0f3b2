"""Thousands of whole runs as one compiled program, for sources that run under jit.

The loop for statistics: no logs, no checkpoints, nothing on the host. A step is that of `ipsrl.training.trainer`, so
that `ipsrl.training.loop` gives the same run for the same seed.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.arguments import checked
from ipsrl.distributed import memory
from ipsrl.distributed.runs import over_runs
from ipsrl.policies.policy import Parameters
from ipsrl.rewards import Reward
from ipsrl.training.trainer import Trainer


@functools.partial(jax.jit, static_argnames=("trainer", "record", "record_every", "block"))
@checked
def train_ensemble(
    trainer: Trainer,
    seeds: Array,
    record: Callable[[Parameters], Any],
    record_every: int = 1,
    learning_rates: Array | None = None,
    initial_parameters: Parameters | None = None,
    reward: Reward | None = None,
    block: int | None = None,
) -> Any:
    """Trains one policy for each seed, all at once; the initial policy is the reference of a KL penalty.

    Under the mesh of `ipsrl.distributed.runs` the runs are distributed over its devices.

    Args:
      trainer: its source runs under jit; its settings say how many steps.
      seeds: `[S]` int32.
      record: (parameters) -> what to record of them, a pytree of arrays.
      record_every: steps between records.
      learning_rates: `[S]` float32; None for the learning rate of the settings.
      initial_parameters: initial parameters of each run, leaves `[S, ...]`; `policy.init` by default.
      reward: of the answers in each run, leaves `[S, ...]`, or `[]` for all; None for the environment's own.
      block: see `over_runs`.

    Returns:
      results of `record` before the first step and after every `record_every` steps, with two leading axes `[S, steps /
        record_every + 1]`.

    Raises:
      ValueError: groups are made on the host, the number of steps is not a multiple of `record_every`, the objective
        cannot be computed here, or there is too little memory.
    """
    steps = trainer.settings.steps
    if trainer.frozen is not None:
        raise ValueError("runs of one program cannot have frozen parameters: use ipsrl.training.loop")
    if trainer.groups_from.on_host:
        raise ValueError(
            "the groups of these runs are made on the host, by a verifier or a batch filter, so runs cannot be one "
            "program: use ipsrl.training.loop"
        )
    if record_every < 1:
        raise ValueError(f"record_every is {record_every}, it must be at least 1")
    if steps % record_every:
        raise ValueError(f"steps is {steps}, it must be a multiple of record_every, {record_every}")
    trainer.check(runs=len(seeds) if block is None else min(block, len(seeds)))
    recorded = jax.eval_shape(lambda: record(trainer.policy.init(jax.random.key(0))))
    records = len(seeds) * (steps // record_every + 1)
    memory.require(records * memory.size_of(recorded), "the records of these runs", "record less often")

    def one_run(seed, learning_rate, parameters, reward):
        state = trainer.begin(seed, learning_rate, parameters, reward)
        first = record(state.parameters)

        def one_step(state, _):
            return trainer.step(state)[0], None

        def one_interval(state, _):
            state, _ = jax.lax.scan(one_step, state, length=record_every)
            return state, record(state.parameters)

        _, later = jax.lax.scan(one_interval, state, length=steps // record_every)
        return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, later)

    reward = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, seeds.shape) if jnp.ndim(leaf) == 0 else leaf, reward)
    return over_runs(one_run, block)(seeds, learning_rates, initial_parameters, reward)


def itself(parameters: Parameters) -> Parameters:
    """All parameters, for `record`. One function for everybody, because each new one would be compiled anew."""
    return parameters
